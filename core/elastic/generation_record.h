// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hora::elastic {

/// The identity of one process of a job. hrun counts the processes that it starts, so no identity is used
/// twice.
using MemberId = std::uint64_t;

/// A process of a generation. A value.
struct MemberInfo {
  MemberId id = 0;
  int host = 0;            ///< hrun's number for the host
  int slot = 0;            ///< on the host; a process that replaces another one takes its slot
  bool has_state = false;  ///< it has the parameters and the optimizer's state after the committed steps

  bool operator==(const MemberInfo&) const = default;
};

/// The beginning of a generation: its members, and which steps count. hrun makes one record for each
/// generation, and never changes it. A value.
struct GenerationRecord {
  std::uint64_t generation = 0;
  std::vector<MemberInfo> members;  ///< by rank
  std::uint64_t committed = 0;      ///< the number of steps that count; they are the same on all members
  /// There are fewer members than the job needs, and they wait for others. False: if there are too few all
  /// the same, the members end what they do, and pause before the step after that.
  bool paused = false;
  int hot_spares = 0;  ///< so many of the last ranks train on nothing, until they are needed

  bool operator==(const GenerationRecord&) const = default;

  /// The rank of a member; -1: it is not one.
  [[nodiscard]] int rank_of(MemberId id) const;
};

[[nodiscard]] Bytes encode(const GenerationRecord& record);
/// Throws Error(internal) if these bytes are no record, or one with two members of one identity.
[[nodiscard]] GenerationRecord decode_generation_record(std::span<const std::byte> bytes);

/// These members in the order of their ranks. The ranks of a host follow each other, by slot. Hosts come in
/// the order that they have in `former`, new hosts behind them, by number. So members that stay keep their
/// order. If the first one had no state, another one that has it comes first, and its host with it: programs
/// take rank 0 for one that has the state.
[[nodiscard]] std::vector<MemberInfo> in_rank_order(std::vector<MemberInfo> members,
                                                    const GenerationRecord& former);

}  // namespace hora::elastic
