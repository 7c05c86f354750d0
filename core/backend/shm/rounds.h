// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/phase_barrier.h"

#include <array>
#include <cstdint>
#include <initializer_list>

namespace hora::shm {

enum class Call : std::uint8_t { allreduce = 1, broadcast, allgather, barrier, alltoall, reducescatter };

/// The frame of every collective call: write into the own mailbox what this rank brings (`open`); wait until
/// all have, and look whether they mean the same (`meet`); and, where somebody reaches into the buffers of
/// others, wait until all are done with that (`phase`). *Engine only*, except
/// `progress` and `abort`.
class Rounds {
 public:
  explicit Rounds(const Communicator& communicator) : communicator_(communicator), barrier_(communicator) {}

  /// Begins a call: until `meet` this rank's mailbox and inline buffer are its own. All ranks give the same.
  /// Throws the abort.
  Mailbox& open(Call call, std::uint64_t bytes, std::uint64_t detail);
  /// All have opened the same call; their mailboxes and inline buffers can be read. Throws Error(internal)
  /// that names the ranks if they have not, and Error with the status of an abort.
  void meet();
  /// All ranks have got here. Throws Error with the status of an abort.
  void phase();
  [[nodiscard]] std::uint64_t progress() const noexcept { return barrier_.progress(); }
  void abort(const Status& why) noexcept { barrier_.abort(why); }
  Status cause_of(const Status& own) { return barrier_.cause_of(own); }
  /// Whether a phase is expensive, because there are more ranks than cores.
  [[nodiscard]] bool crowded() const { return barrier_.crowded(); }

  /// Whether the first `count` buffers of these lists in the mailboxes of all ranks lie in the arena.
  [[nodiscard]] bool all_in_arena(
      std::size_t count, std::initializer_list<std::array<Location, kLocations> Mailbox::*> lists) const;

  [[nodiscard]] Mailbox& mailbox(int place) const {
    return communicator_.block(place).mailboxes[sequence_ % 2];
  }
  [[nodiscard]] std::byte* inline_buffer(int place) const {
    return communicator_.block(place).inline_buffers[sequence_ % 2].data();
  }
  [[nodiscard]] std::byte* stage(int place) const { return communicator_.block(place).stage.data(); }

 private:
  Communicator communicator_;
  PhaseBarrier barrier_;
  std::uint64_t sequence_ = 0;
};

}  // namespace hora::shm
