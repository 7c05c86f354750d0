// SPDX-License-Identifier: Apache-2.0
#include "core/join/handshake.h"

#include "core/base/rank_assignment.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::uint8_t kVersion = 2;
constexpr std::array<std::byte, kPreambleBytes> kPreamble{std::byte{'H'}, std::byte{'O'},      std::byte{'R'},
                                                          std::byte{'A'}, std::byte{kVersion}, std::byte{0},
                                                          std::byte{0},   std::byte{0}};
constexpr std::size_t kMagicBytes = 4;
constexpr std::uint32_t kMostConnections = 256;  // between two ranks

constexpr const char* kOtherSecret =
    "the other side does not know this job's secret: it belongs to another job; ranks of "
    "one job must be started together by hrun";

void put_u32(std::byte* to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t take_u32(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

void check_preamble(std::span<const std::byte> bytes) {
  const auto version = static_cast<int>(bytes[kMagicBytes]);
  if (may_be_answer(bytes) && version != kVersion) {
    throw Error(Code::invalid_argument,
                fmt::format("the other side speaks version {} of Hora's protocol, this one version "
                            "{}: install the same Hora everywhere",
                            version, kVersion));
  }
  if (!std::equal(kPreamble.begin(), kPreamble.end(), bytes.begin()))
    throw Error(Code::unavailable, "the other side is not a rank of Hora");
}

// Bytes of a hello's payload: 0 role, 1 zeros, 4 rank, 8 size, 12 to, 16 stream.
using Payload = std::array<std::byte, kHelloPayload>;

Payload encode_hello(const Hello& hello) {
  Payload bytes{};
  bytes[0] = static_cast<std::byte>(hello.role);
  put_u32(&bytes[4], static_cast<std::uint32_t>(hello.rank));
  put_u32(&bytes[8], static_cast<std::uint32_t>(hello.size));
  put_u32(&bytes[12], static_cast<std::uint32_t>(hello.to));
  put_u32(&bytes[16], static_cast<std::uint32_t>(hello.stream));
  return bytes;
}

Hello decode_hello(const Payload& bytes) {
  const auto role = static_cast<int>(bytes[0]);
  const std::uint32_t rank = take_u32(&bytes[4]);
  const std::uint32_t size = take_u32(&bytes[8]);
  const std::uint32_t to = take_u32(&bytes[12]);
  const std::uint32_t stream = take_u32(&bytes[16]);
  if (role >= kRoles || size == 0 || size > std::uint32_t{kMostRanks} || rank >= size || to >= size ||
      stream >= kMostConnections) {
    throw Error(Code::unavailable,
                fmt::format("a rank introduces itself as rank {} of {} with role {}", rank, size, role));
  }
  return {static_cast<Role>(role), static_cast<int>(rank), static_cast<int>(size), static_cast<int>(to),
          static_cast<int>(stream)};
}

/// Runs `step`; Noise's error for a seal that does not fit becomes one in the words of a handshake.
template <typename Step>
void step_of_handshake(const Step& step) {
  try {
    step();
  } catch (const Error&) {
    throw Error(Code::invalid_argument, kOtherSecret);
  }
}

}  // namespace

Initiator::Initiator(const Secret& secret, const Hello& hello) : noise_(secret, kPreamble), hello_{} {
  std::copy(kPreamble.begin(), kPreamble.end(), hello_.begin());
  noise_.write_first(make_key_pair(), encode_hello(hello), std::span(hello_).subspan(kPreambleBytes));
}

Initiator::Proof Initiator::prove(const AnswerBytes& answer) {
  check_preamble(answer);
  step_of_handshake([&] { noise_.read_second(std::span(answer).subspan(kPreambleBytes), {}); });
  Proof proof{{}, noise_.split(true)};
  proof.session.sends.seal({}, proof.bytes);
  return proof;
}

bool may_be_answer(std::span<const std::byte> received) {
  const auto shared = received.first(std::min(received.size(), kMagicBytes));
  return std::equal(shared.begin(), shared.end(), kPreamble.begin());
}

Responder::Responder(const Secret& secret, int rank) : noise_(secret, kPreamble), rank_(rank) {}

AnswerBytes Responder::answer(const HelloBytes& hello) {
  check_preamble(hello);
  Payload payload;
  step_of_handshake([&] { noise_.read_first(std::span(hello).subspan(kPreambleBytes), payload); });
  initiator_ = decode_hello(payload);
  if (initiator_.to != rank_)
    throw Error(Code::unavailable,
                fmt::format("it looks for rank {}, this is rank {}", initiator_.to, rank_));
  AnswerBytes answer;
  std::copy(kPreamble.begin(), kPreamble.end(), answer.begin());
  const KeyPair own = make_key_pair();
  step_of_handshake([&] { noise_.write_second(own, {}, std::span(answer).subspan(kPreambleBytes)); });
  return answer;
}

SessionKeys Responder::check(const ProofBytes& proof) {
  SessionKeys session = noise_.split(false);
  step_of_handshake([&] { session.receives.open(proof, {}); });
  return session;
}

SessionKeys greet(int fd, const Secret& secret, const Hello& hello, TimePoint deadline) {
  Initiator initiator(secret, hello);
  write_all(fd, initiator.hello(), deadline);
  AnswerBytes answer;
  read_exactly(fd, answer, deadline);
  auto proof = initiator.prove(answer);
  write_all(fd, proof.bytes, deadline);
  return std::move(proof.session);
}

Welcomed welcome(int fd, const Secret& secret, TimePoint deadline) {
  Responder responder(secret);
  HelloBytes hello;
  read_exactly(fd, hello, deadline);
  write_all(fd, responder.answer(hello), deadline);
  ProofBytes proof;
  read_exactly(fd, proof, deadline);
  SessionKeys session = responder.check(proof);
  return {responder.initiator(), std::move(session)};
}

}  // namespace hora
