// SPDX-License-Identifier: Apache-2.0
#include "core/join/noise.h"

#include "core/join/secret.h"

#include <hora/status.h>

#include <sodium.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace hora {
namespace {

constexpr std::string_view kProtocolName = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
static_assert(sizeof(Secret) == crypto_hash_sha256_BYTES);
static_assert(sizeof(Secret) == crypto_auth_hmacsha256_BYTES);
static_assert(sizeof(Secret) == crypto_aead_chacha20poly1305_IETF_KEYBYTES);
static_assert(sizeof(Secret) == crypto_scalarmult_SCALARBYTES);

unsigned char* noise_raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* noise_raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
std::span<const std::byte> bytes_of_key(const Secret& key) { return std::as_bytes(std::span(key)); }

void erase(Secret& key) { sodium_memzero(key.data(), key.size()); }

/// HMAC-SHA256 of two pieces.
Secret hmac(const Secret& key, std::span<const std::byte> first, std::span<const std::byte> second = {}) {
  Secret result;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha256_update(&state, noise_raw(first.data()), first.size());
  crypto_auth_hmacsha256_update(&state, noise_raw(second.data()), second.size());
  crypto_auth_hmacsha256_final(&state, result.data());
  sodium_memzero(&state, sizeof state);
  return result;
}

/// Noise's HKDF: three keys made of one and of something new.
std::array<Secret, 3> derive(const Secret& chaining, std::span<const std::byte> input) {
  std::array<Secret, 3> keys{};
  Secret temporary = hmac(chaining, input);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto number = static_cast<std::byte>(i + 1);
    const auto before = i == 0 ? std::span<const std::byte>() : bytes_of_key(keys[i - 1]);
    keys[i] = hmac(temporary, before, {&number, 1});
  }
  erase(temporary);
  return keys;
}

}  // namespace

Cipher::Cipher(Cipher&& other) noexcept : key_(other.key_), used_(other.used_) { erase(other.key_); }

Cipher& Cipher::operator=(Cipher&& other) noexcept {
  std::swap(key_, other.key_);
  std::swap(used_, other.used_);
  return *this;
}

Cipher::~Cipher() { erase(key_); }

Cipher::Nonce Cipher::next_nonce() {
  if (used_ == std::numeric_limits<std::uint64_t>::max())
    throw Error(Code::internal, "a connection has used up its key: more than 2^64 messages");
  Nonce nonce{};  // four zeros and the number, low bytes first
  for (std::size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<unsigned char>(used_ >> (8 * i));
  ++used_;
  return nonce;
}

void Cipher::seal(std::span<const std::byte> plain, std::span<std::byte> sealed,
                  std::span<const std::byte> known) {
  const Nonce nonce = next_nonce();
  crypto_aead_chacha20poly1305_ietf_encrypt(noise_raw(sealed.data()), nullptr, noise_raw(plain.data()),
                                            plain.size(), noise_raw(known.data()), known.size(), nullptr,
                                            nonce.data(), key_.data());
}

void Cipher::open(std::span<const std::byte> sealed, std::span<std::byte> plain,
                  std::span<const std::byte> known) {
  const Nonce nonce = next_nonce();
  if (crypto_aead_chacha20poly1305_ietf_decrypt(
          noise_raw(plain.data()), nullptr, nullptr, noise_raw(sealed.data()), sealed.size(),
          noise_raw(known.data()), known.size(), nonce.data(), key_.data()) != 0) {
    throw Error(Code::internal,
                "what came is not what a rank of this job has sent: it was forged, changed or repeated");
  }
}

Cipher Cipher::derived() const {
  Nonce last;
  last.fill(0xff);
  std::fill_n(last.begin(), 4, static_cast<unsigned char>(0));
  const Secret zeros{};
  std::array<unsigned char, sizeof(Secret) + kSealBytes> sealed{};
  crypto_aead_chacha20poly1305_ietf_encrypt(sealed.data(), nullptr, zeros.data(), zeros.size(), nullptr, 0,
                                            nullptr, last.data(), key_.data());
  Secret key;
  std::copy_n(sealed.begin(), key.size(), key.begin());
  sodium_memzero(sealed.data(), sealed.size());
  Cipher made(key);
  erase(key);
  return made;
}

KeyPair make_key_pair() {
  Secret secret = new_secret();
  KeyPair pair = key_pair_of(secret);
  erase(secret);
  return pair;
}

KeyPair key_pair_of(const Secret& secret) {
  KeyPair pair{secret, {}};
  crypto_scalarmult_base(noise_raw(pair.point.data()), secret.data());
  return pair;
}

NoiseHandshake::NoiseHandshake(const Secret& psk, std::span<const std::byte> prologue)
    : psk_(psk), cipher_(Secret{}) {
  crypto_hash_sha256(hash_.data(), reinterpret_cast<const unsigned char*>(kProtocolName.data()),
                     kProtocolName.size());
  chaining_ = hash_;
  mix_hash(prologue);
}

NoiseHandshake::~NoiseHandshake() {
  erase(psk_);
  erase(own_.secret);
  erase(chaining_);
}

void NoiseHandshake::write_first(const KeyPair& own, std::span<const std::byte> payload,
                                 std::span<std::byte> message) {
  mix_key_and_hash(bytes_of_key(psk_));
  mix_own_point(own, message);
  seal_payload(payload, message.subspan(kPointBytes));
}

void NoiseHandshake::read_first(std::span<const std::byte> message, std::span<std::byte> payload) {
  mix_key_and_hash(bytes_of_key(psk_));
  mix_their_point(message);
  open_payload(message.subspan(kPointBytes), payload);
}

void NoiseHandshake::write_second(const KeyPair& own, std::span<const std::byte> payload,
                                  std::span<std::byte> message) {
  mix_own_point(own, message);
  mix_agreement();
  seal_payload(payload, message.subspan(kPointBytes));
}

void NoiseHandshake::read_second(std::span<const std::byte> message, std::span<std::byte> payload) {
  mix_their_point(message);
  mix_agreement();
  open_payload(message.subspan(kPointBytes), payload);
}

SessionKeys NoiseHandshake::split(bool initiator) {
  auto keys = derive(chaining_, {});
  if (!initiator) std::swap(keys[0], keys[1]);
  SessionKeys session{Cipher(keys[0]), Cipher(keys[1])};
  for (auto& key : keys) erase(key);
  return session;
}

void NoiseHandshake::mix_hash(std::span<const std::byte> data) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, hash_.data(), hash_.size());
  crypto_hash_sha256_update(&state, noise_raw(data.data()), data.size());
  crypto_hash_sha256_final(&state, hash_.data());
}

void NoiseHandshake::mix_key(std::span<const std::byte> data) {
  auto keys = derive(chaining_, data);
  chaining_ = keys[0];
  cipher_ = Cipher(keys[1]);
  for (auto& key : keys) erase(key);
}

void NoiseHandshake::mix_key_and_hash(std::span<const std::byte> data) {
  auto keys = derive(chaining_, data);
  chaining_ = keys[0];
  mix_hash(bytes_of_key(keys[1]));
  cipher_ = Cipher(keys[2]);
  for (auto& key : keys) erase(key);
}

void NoiseHandshake::mix_own_point(const KeyPair& own, std::span<std::byte> message) {
  own_ = own;
  std::copy(own_.point.begin(), own_.point.end(), message.begin());
  mix_hash(own_.point);
  mix_key(own_.point);
}

void NoiseHandshake::mix_their_point(std::span<const std::byte> message) {
  std::copy_n(message.begin(), theirs_.size(), theirs_.begin());
  mix_hash(theirs_);
  mix_key(theirs_);
}

void NoiseHandshake::mix_agreement() {
  Secret agreed;
  if (crypto_scalarmult(agreed.data(), own_.secret.data(), noise_raw(theirs_.data())) != 0)
    throw Error(Code::internal, "the other side sent a public key that is none");
  mix_key(bytes_of_key(agreed));
  erase(agreed);
}

void NoiseHandshake::seal_payload(std::span<const std::byte> payload, std::span<std::byte> sealed) {
  const Secret known = hash_;
  cipher_.seal(payload, sealed, bytes_of_key(known));
  mix_hash(sealed);
}

void NoiseHandshake::open_payload(std::span<const std::byte> sealed, std::span<std::byte> payload) {
  cipher_.open(sealed, payload, bytes_of_key(hash_));
  mix_hash(sealed);
}

}  // namespace hora
