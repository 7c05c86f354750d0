// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <hora/config.h>

#include <array>
#include <cstdint>
#include <span>

namespace hora {

/// What a connection between two ranks is for.
enum class Role : std::uint8_t { control, data, arena, message };
inline constexpr int kRoles = 4;

/// Who connects, and what for. A value.
struct Hello {
  Role role = Role::control;
  int rank = 0;
  int size = 1;
  int to = 0;      ///< the rank that is called: what answers at an address may be another one of this job
  int stream = 0;  ///< which of several connections between the same two
};

// Two ranks that have just connected prove to each other that they know the job's secret, without showing it:
//
//   guest -> host   hello      who, what for, and 32 random bytes
//   host -> guest   challenge  32 random bytes, and a MAC under the secret of everything so far and "host"
//   guest -> host   proof      a MAC under the secret of everything so far and "guest"
//
// Messages have a fixed size; nothing is allocated and no length is believed before the proof. A wrong
// message gets no answer: the connection is closed. MACs are keyed BLAKE2b (libsodium), compared in constant
// time. The nonces of both sides are in both MACs, so nothing that was recorded can be played again; the
// marks keep the sides apart.

inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kChallengeBytes = 72;
inline constexpr std::size_t kProofBytes = 32;
using HelloBytes = std::array<std::byte, kHelloBytes>;
using ChallengeBytes = std::array<std::byte, kChallengeBytes>;
using ProofBytes = std::array<std::byte, kProofBytes>;

/// The connecting side. One connection's worth; does no I/O.
class Guest {
 public:
  Guest(const Secret& secret, const Hello& hello);

  [[nodiscard]] const HelloBytes& hello() const { return hello_; }
  /// Throws Error(invalid_argument) if the host does not know the secret or speaks another version.
  [[nodiscard]] ProofBytes prove(const ChallengeBytes& challenge) const;

 private:
  Secret secret_;
  HelloBytes hello_;
};

/// Whether what has been received so far may become a challenge. False: another service answers.
[[nodiscard]] bool may_be_challenge(std::span<const std::byte> received);

/// The accepting side. One connection's worth; does no I/O.
class Host {
 public:
  /// `rank`: who this is. Only whoever looks for it is answered, so a challenge says that the right one
  /// answers.
  explicit Host(const Secret& secret, int rank = 0) : secret_(secret), rank_(rank) {}

  /// Throws Error(unavailable) if the bytes are no hello or for another rank, Error(invalid_argument) if they
  /// are of another version.
  ChallengeBytes challenge(const HelloBytes& hello);
  /// Who has connected. Throws Error(invalid_argument) if the guest does not know the secret.
  [[nodiscard]] Hello check(const ProofBytes& proof) const;

 private:
  Secret secret_;
  int rank_;
  HelloBytes hello_{};
  ChallengeBytes challenge_{};
};

// Both sides over a connected stream socket, blocking up to the deadline. They throw what Guest
// and Host throw, Error(unavailable) when the connection breaks, and Error(timeout).
void greet(int fd, const Secret& secret, const Hello& hello, TimePoint deadline);
[[nodiscard]] Hello welcome(int fd, const Secret& secret, TimePoint deadline);

}  // namespace hora
