// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hora {

// The Noise protocol framework (noiseprotocol.org, revision 34), of which one pattern is used,
// Noise_NNpsk0_25519_ChaChaPoly_SHA256, with libsodium's primitives:
//
//   -> psk, e     the initiator's new public key, and a payload: sealed with the secret that both know
//   <- e, ee      the responder's new public key, and a payload: sealed with what both keys make, too
//
// Then each direction has a key of its own. An attacker who learns the secret later cannot find it out.

inline constexpr std::size_t kSealBytes = 16;   ///< by which what is sealed is longer
inline constexpr std::size_t kPointBytes = 32;  ///< of a public key

/// A key for one direction, and how often it has been used: Noise's CipherState. The message that is sealed
/// first must be opened first, and so on: any other message, and one that has been changed, does not open.
/// Unlike Noise's messages those sealed here may be longer than 65535 bytes. Moves, so that no number is used
/// twice; leaves no key behind in memory.
class Cipher {
 public:
  explicit Cipher(const Secret& key) : key_(key) {}
  Cipher(Cipher&& other) noexcept;
  Cipher& operator=(Cipher&& other) noexcept;
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
  ~Cipher();

  /// Encrypts `plain`, with a seal, into `sealed`, which has kSealBytes more and may begin at the same place.
  /// `known` is not sent, but must be the same where it is opened.
  void seal(std::span<const std::byte> plain, std::span<std::byte> sealed,
            std::span<const std::byte> known = {});
  /// One with a key that is made of this one's, by Noise's REKEY, for something else on the same connection.
  [[nodiscard]] Cipher derived() const;
  /// The opposite. Throws Error(internal) if the seal does not fit; `plain` is then of no meaning.
  void open(std::span<const std::byte> sealed, std::span<std::byte> plain,
            std::span<const std::byte> known = {});

 private:
  using Nonce = std::array<unsigned char, 12>;
  Nonce next_nonce();

  Secret key_;
  std::uint64_t used_ = 0;
};

/// Two ranks' keys after a handshake: one rank sends with the key with which the other one receives. Moves.
struct SessionKeys {
  Cipher sends;
  Cipher receives;
  [[nodiscard]] SessionKeys derived() const { return {sends.derived(), receives.derived()}; }
};

/// A private and a public key of X25519.
struct KeyPair {
  Secret secret{};
  std::array<std::byte, kPointBytes> point{};
};
/// A new one. Throws Error(unavailable) if the system gives no random numbers.
[[nodiscard]] KeyPair make_key_pair();
/// The one with this private key.
[[nodiscard]] KeyPair key_pair_of(const Secret& secret);

/// One side of one handshake: Noise's SymmetricState and HandshakeState. The initiator writes the first
/// message and reads the second, the responder the opposite; `split` follows. Does no I/O. Moves.
class NoiseHandshake {
 public:
  static constexpr std::size_t kOverhead = kPointBytes + kSealBytes;  ///< of a message, over its payload

  /// `prologue`: the bytes that both sides must agree on without their being sent.
  NoiseHandshake(const Secret& psk, std::span<const std::byte> prologue);
  NoiseHandshake(NoiseHandshake&&) = default;
  NoiseHandshake& operator=(NoiseHandshake&&) = default;
  NoiseHandshake(const NoiseHandshake&) = delete;
  NoiseHandshake& operator=(const NoiseHandshake&) = delete;
  ~NoiseHandshake();

  // Writing fills `message`, which has kOverhead more bytes than the payload, with a key pair of this
  // handshake alone. Reading throws Error(internal) if the other side does not know the secret, or something
  // was changed on the way.
  void write_first(const KeyPair& own, std::span<const std::byte> payload, std::span<std::byte> message);
  void read_first(std::span<const std::byte> message, std::span<std::byte> payload);
  void write_second(const KeyPair& own, std::span<const std::byte> payload, std::span<std::byte> message);
  void read_second(std::span<const std::byte> message, std::span<std::byte> payload);

  /// The keys after both messages. `initiator`: whether this side wrote the first one.
  [[nodiscard]] SessionKeys split(bool initiator);

 private:
  using Point = std::array<std::byte, kPointBytes>;
  void mix_hash(std::span<const std::byte> data);
  void mix_key(std::span<const std::byte> data);
  void mix_key_and_hash(std::span<const std::byte> data);
  void mix_own_point(const KeyPair& own, std::span<std::byte> message);
  void mix_their_point(std::span<const std::byte> message);
  void mix_agreement();
  void seal_payload(std::span<const std::byte> payload, std::span<std::byte> sealed);
  void open_payload(std::span<const std::byte> sealed, std::span<std::byte> payload);

  Secret psk_;
  KeyPair own_;
  Point theirs_{};
  Secret hash_{};      // of all that has been said
  Secret chaining_{};  // of all that is secret
  Cipher cipher_;
};

}  // namespace hora
