// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/socket_io.h"
#include "core/join/noise.h"

#include <hora/config.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace hora {

/// The purpose of a connection between two ranks.
enum class Role : std::uint8_t { control, data, arena, message, tree_link };
inline constexpr int kRoles = 5;

/// The rank that connects, and its purpose. A value.
struct Hello {
  Role role = Role::control;
  int rank = 0;
  int size = 1;
  int to = 0;      ///< the rank that is called: another one of this job may answer at the address
  int stream = 0;  ///< which of several connections between the same two
};

// Two ranks that have just connected prove to each other that they know the job's secret, without showing it.
// They also make keys for this connection alone (noise.h):
//
//   initiator -> responder   hello   the preamble; Noise's first message: a public key, and the sealed Hello
//   responder -> initiator   answer  the preamble; Noise's second message: a public key, and the seal of
//                                    nothing
//   initiator -> responder   proof   the seal of nothing with the new key: this initiator has the private
//                                    key, too
//
// The preamble is the magic, the version and three zeros; it is Noise's prologue, so both must mean the same.
// A responder answers only a hello that was sealed with the secret, and that looks for this rank. An attacker
// who has recorded a hello can play it again, and is answered. But the attacker then cannot make the proof,
// and until there is a proof no rank has come. Messages have a fixed size; nothing is allocated and no length
// is believed before the proof. A wrong message gets no answer: the connection is closed, and the other side
// is not told why.

inline constexpr std::size_t kPreambleBytes = 8;
inline constexpr std::size_t kHelloPayload = 20;
inline constexpr std::size_t kHelloBytes = kPreambleBytes + NoiseHandshake::kOverhead + kHelloPayload;
inline constexpr std::size_t kAnswerBytes = kPreambleBytes + NoiseHandshake::kOverhead;
inline constexpr std::size_t kProofBytes = kSealBytes;
using HelloBytes = std::array<std::byte, kHelloBytes>;
using AnswerBytes = std::array<std::byte, kAnswerBytes>;
using ProofBytes = std::array<std::byte, kProofBytes>;

/// The connecting side. One connection's worth; does no I/O. Moves.
class Initiator {
 public:
  /// Throws Error(unavailable) if the system gives no random numbers.
  Initiator(const Secret& secret, const Hello& hello);

  [[nodiscard]] const HelloBytes& hello() const { return hello_; }

  struct Proof {
    ProofBytes bytes;
    SessionKeys session;
  };
  /// Once. Throws Error(invalid_argument) if the responder does not know the secret or speaks another
  /// version.
  [[nodiscard]] Proof prove(const AnswerBytes& answer);

 private:
  NoiseHandshake noise_;
  HelloBytes hello_;
};

/// Whether the bytes that have been received so far may become an answer. False: another service answers.
[[nodiscard]] bool may_be_answer(std::span<const std::byte> received);

/// The accepting side. One connection's worth; does no I/O. Moves.
class Responder {
 public:
  /// `rank`: the rank that this is. Only an initiator that looks for it is answered.
  explicit Responder(const Secret& secret, int rank = 0);

  /// Once. Throws Error(unavailable) if the bytes are no hello or for another rank. Throws
  /// Error(invalid_argument) if they are of another version, or of an initiator that does not know the
  /// secret.
  [[nodiscard]] AnswerBytes answer(const HelloBytes& hello);
  /// The rank that has sent the hello.
  [[nodiscard]] const Hello& initiator() const { return initiator_; }
  /// Once, after `answer`. Throws Error(invalid_argument) if the sender of the hello was not the initiator
  /// itself.
  [[nodiscard]] SessionKeys check(const ProofBytes& proof);

 private:
  NoiseHandshake noise_;
  int rank_;
  Hello initiator_;
};

/// A connection to a rank of this job, which has proved that it is one. Moves.
struct Connection {
  Descriptor socket;
  SessionKeys session;
};

/// The data that `welcome` learns.
struct Welcomed {
  Hello hello;
  SessionKeys session;
};

// Both sides over a connected stream socket, blocking up to the deadline. They throw what Initiator
// and Responder throw, Error(unavailable) when the connection breaks, and Error(timeout).
SessionKeys greet(int fd, const Secret& secret, const Hello& hello, TimePoint deadline);
[[nodiscard]] Welcomed welcome(int fd, const Secret& secret, TimePoint deadline);

}  // namespace hora
