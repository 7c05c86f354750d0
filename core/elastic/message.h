// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/leader.h"
#include "core/elastic/member.h"

#include <hora/config.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hora::elastic {

/// A message of the Leader to a member. A value.
struct LeaderMessage {
  enum class Kind { stop, record, go, out, plan_change };  ///< as LeaderAction's
  Kind kind = Kind::stop;
  std::uint64_t generation = 0;
  MemberId lost = 0;          ///< of a `stop`: the member that has died or is suspected; 0: none
  std::string why{};          ///< of a `stop` or an `out`: a text for the user
  GenerationRecord record{};  ///< of a `record`, as the following ones
  std::string coordinator{};  ///< "address:port,address:port" at which its rank 0 listens
  Secret secret{};            ///< by which its members recognise each other; nobody else gets it

  bool operator==(const LeaderMessage&) const = default;
};

/// A message of a process to the Leader. A value.
struct MemberMessage {
  enum class Kind {
    join,     ///< it is ready to become a member
    beat,     ///< a sign of life
    suspect,  ///< it has lost the connection with `peer`
    report,
    formed,  ///< its connections in `generation` are there
    leave,   ///< it asks to go
    finish,  ///< it has made the last step, and ends
    step,    ///< a step has counted in `generation`, the first one there; rank 0 tells it
  };
  Kind kind = Kind::beat;
  /// Of a `join` or a `report`: where the process listens, on all its addresses, for the members of the next
  /// generation.
  std::uint16_t port = 0;
  std::uint64_t generation = 0;  ///< of a `formed` and a `step`
  MemberId peer = 0;             ///< of a `suspect` alone
  Report report{};               ///< of a `report` alone

  bool operator==(const MemberMessage&) const = default;
};

inline constexpr std::size_t kMostWhyBytes = 1024;
inline constexpr std::size_t kMostCoordinatorBytes = 4096;

[[nodiscard]] Bytes encode(const LeaderMessage& message);
[[nodiscard]] Bytes encode(const MemberMessage& message);
/// Throw Error(internal) for bytes that are no such message.
[[nodiscard]] LeaderMessage decode_leader_message(std::span<const std::byte> bytes);
[[nodiscard]] MemberMessage decode_member_message(std::span<const std::byte> bytes);

/// The message that carries an action out which is one: all but `kill` and `end_job`. The caller adds what
/// the Leader does not know: who was lost and why, the coordinator, and the secret.
[[nodiscard]] LeaderMessage message_of(const LeaderAction& action);
/// The message that carries `suspect`, `report` or `tell_formed` out.
[[nodiscard]] MemberMessage message_of(const MemberAction& action);

/// Passes a message to the state machine. A `plan_change` is for the engine of rank 0, so it changes nothing
/// here.
[[nodiscard]] Member::Actions deliver(Member& member, const LeaderMessage& message);
/// `from`: the process whose message it is. The message counts for this process alone, also if it names
/// another one.
[[nodiscard]] Leader::Actions deliver(Leader& leader, const MemberInfo& from, const MemberMessage& message,
                                      TimePoint now);

}  // namespace hora::elastic
