// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/control_queue.h"
#include "core/base/shared_cores.h"
#include "core/comm/readiness_vote.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hora::shm {

inline constexpr std::size_t kFlagLine = 128;  // two cache lines: neighbours are fetched in pairs
inline constexpr std::size_t kLocations = 2048;
inline constexpr std::size_t kInlineBytes = 16 * 1024;
inline constexpr std::size_t kStageBytes = 1024 * 1024;

/// Where a buffer lies: an offset in the arena, which all can reach, or an address in its owner's process. A
/// value.
struct Location {
  std::uint64_t where = 0;
  std::uint64_t in_arena = 0;
};

/// The description by a rank of its part in one collective call, before the others reach for its buffers.
struct Mailbox {
  // The identity of the call: the same on all ranks, or they would mix up bytes.
  std::uint64_t sequence = 0;
  std::uint64_t call = 0;
  std::uint64_t bytes = 0;
  std::uint64_t detail = 0;     ///< dtype and operation, or root
  std::uint64_t is_inline = 0;  ///< the input is in the inline buffer; else at `inputs`
  std::uint64_t direct = 0;     ///< rank 0's word counts: private memory does not travel through the stages
  std::uint64_t by_levels = 0;  ///< rank 0's word counts: elements move by way of near ranks' stages
  std::array<Location, kLocations> inputs;
  std::array<Location, kLocations> outputs;
};

/// One rank's part of the arena's head. Only that rank writes it, except `wakes`, `roll.wake_up`, the control
/// queues, and `stage` where said so. All zeros at first, and trivially so, as the memory is shared and never
/// constructed.
///
/// The mailboxes and the inline buffers alternate from call to call: whoever is still reading those of the
/// last call is not disturbed by the next one, and nobody can be two calls behind.
struct RankBlock {
  VotePart roll;
  alignas(kFlagLine) std::atomic<std::uint64_t> arrived;  ///< how many phases this rank has reached
  alignas(kFlagLine) std::atomic<std::uint32_t> wakes;    ///< a futex; whoever wakes this rank adds one
  std::atomic<std::uint32_t> sleeping;  ///< this rank waits, or is about to wait, for `wakes` to grow
  alignas(kFlagLine) SharedCores cores;
  alignas(kFlagLine) std::atomic<std::uint64_t> given_back;  ///< how often this rank has given memory back
  std::atomic<std::uint32_t> gone;                           ///< this rank has left for good (write_guard.h)
  alignas(kFlagLine) std::atomic<std::uint32_t> writing;     ///< this rank is writing to others' buffers
  ControlQueue to_root;                                      ///< this rank's messages to rank 0
  ControlQueue from_root;                                    ///< and those of rank 0 to it
  alignas(kFlagLine) std::array<Mailbox, 2> mailboxes;
  alignas(kFlagLine) std::array<std::array<std::byte, kInlineBytes>, 2> inline_buffers;
  alignas(4096) std::array<std::byte, kStageBytes> stage;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hora::shm
