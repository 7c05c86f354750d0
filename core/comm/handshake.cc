// SPDX-License-Identifier: Apache-2.0
#include "core/comm/handshake.h"

#include "core/comm/socket_io.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace hora {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::array<char, 4> kMagic{'H', 'O', 'R', 'A'};
constexpr std::size_t kNonceBytes = 32;
constexpr std::uint32_t kMostConnections = 256;  // between two ranks
constexpr std::size_t kNonceAt = kHelloBytes - kNonceBytes;
// In a challenge: the magic, the version, three zeros, the nonce, the MAC.
constexpr std::size_t kChallengeNonceAt = 8;
constexpr std::size_t kChallengeMacAt = kChallengeNonceAt + kNonceBytes;

using Mac = std::array<std::byte, kProofBytes>;

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

void start_sodium() {
  if (::sodium_init() < 0)
    throw Error(Code::unavailable, "libsodium cannot start: the system gives no random numbers");
}

void put_u32(std::byte* to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t take_u32(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

/// Of all that has been said up to the challenge's nonce, by the side called `mark`.
Mac mac(const Secret& secret, std::string_view mark, const HelloBytes& hello,
        const ChallengeBytes& challenge) {
  Mac result;
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret.data(), secret.size(), result.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(mark.data()), mark.size());
  crypto_generichash_update(&state, raw(hello.data()), hello.size());
  crypto_generichash_update(&state, raw(challenge.data()), kChallengeMacAt);
  crypto_generichash_final(&state, raw(result.data()), result.size());
  return result;
}

void check_preamble(const std::byte* bytes) {
  if (std::memcmp(bytes, kMagic.data(), kMagic.size()) != 0) {
    throw Error(Code::unavailable, "the other side is not a rank of Hora");
  }
  const auto version = static_cast<int>(bytes[kMagic.size()]);
  if (version != kVersion) {
    throw Error(Code::invalid_argument,
                fmt::format("the other side speaks version {} of Hora's protocol, this one version "
                            "{}: install the same Hora everywhere",
                            version, kVersion));
  }
}

constexpr const char* kOtherSecret =
    "the other side does not know this job's secret: it belongs to another job; ranks of "
    "one job must be started together by hrun";

}  // namespace

// Bytes of a hello: 0 magic, 4 version, 5 role, 8 rank, 12 size, 16 to, 20 stream, 24 zeros, 32 nonce.
Guest::Guest(const Secret& secret, const Hello& hello) : secret_(secret), hello_{} {
  start_sodium();
  std::memcpy(hello_.data(), kMagic.data(), kMagic.size());
  hello_[4] = std::byte{kVersion};
  hello_[5] = static_cast<std::byte>(hello.role);
  put_u32(&hello_[8], static_cast<std::uint32_t>(hello.rank));
  put_u32(&hello_[12], static_cast<std::uint32_t>(hello.size));
  put_u32(&hello_[16], static_cast<std::uint32_t>(hello.to));
  put_u32(&hello_[20], static_cast<std::uint32_t>(hello.stream));
  randombytes_buf(&hello_[kNonceAt], kNonceBytes);
}

ProofBytes Guest::prove(const ChallengeBytes& challenge) const {
  check_preamble(challenge.data());
  const Mac expected = mac(secret_, "host", hello_, challenge);
  if (sodium_memcmp(expected.data(), &challenge[kChallengeMacAt], expected.size()) != 0) {
    throw Error(Code::invalid_argument, kOtherSecret);
  }
  return mac(secret_, "guest", hello_, challenge);
}

bool may_be_challenge(std::span<const std::byte> received) {
  const auto shared = received.first(std::min(received.size(), kMagic.size()));
  return std::equal(shared.begin(), shared.end(), std::as_bytes(std::span(kMagic)).begin());
}

ChallengeBytes Host::challenge(const HelloBytes& hello) {
  start_sodium();
  check_preamble(hello.data());
  if (const auto to = take_u32(&hello[16]); to != static_cast<std::uint32_t>(rank_))
    throw Error(Code::unavailable, fmt::format("it looks for rank {}, this is rank {}", to, rank_));
  hello_ = hello;
  challenge_ = {};
  std::memcpy(challenge_.data(), kMagic.data(), kMagic.size());
  challenge_[4] = std::byte{kVersion};
  randombytes_buf(&challenge_[kChallengeNonceAt], kNonceBytes);
  const Mac proof = mac(secret_, "host", hello_, challenge_);
  std::memcpy(&challenge_[kChallengeMacAt], proof.data(), proof.size());
  return challenge_;
}

Hello Host::check(const ProofBytes& proof) const {
  const Mac expected = mac(secret_, "guest", hello_, challenge_);
  if (sodium_memcmp(expected.data(), proof.data(), expected.size()) != 0)
    throw Error(Code::invalid_argument, kOtherSecret);
  const auto role = static_cast<int>(hello_[5]);
  const std::uint32_t rank = take_u32(&hello_[8]);
  const std::uint32_t size = take_u32(&hello_[12]);
  const std::uint32_t stream = take_u32(&hello_[20]);
  if (role >= kRoles || size == 0 || size > (1U << 20) || rank >= size || stream >= kMostConnections) {
    throw Error(Code::unavailable,
                fmt::format("a rank introduces itself as rank {} of {} with role {}", rank, size, role));
  }
  return {static_cast<Role>(role), static_cast<int>(rank), static_cast<int>(size), rank_,
          static_cast<int>(stream)};
}

void greet(int fd, const Secret& secret, const Hello& hello, TimePoint deadline) {
  const Guest guest(secret, hello);
  write_all(fd, guest.hello(), deadline);
  ChallengeBytes challenge;
  read_exactly(fd, challenge, deadline);
  write_all(fd, guest.prove(challenge), deadline);
}

Hello welcome(int fd, const Secret& secret, TimePoint deadline) {
  Host host(secret);
  HelloBytes hello;
  read_exactly(fd, hello, deadline);
  write_all(fd, host.challenge(hello), deadline);
  ProofBytes proof;
  read_exactly(fd, proof, deadline);
  return host.check(proof);
}

}  // namespace hora
