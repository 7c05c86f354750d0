// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status_of.h"
#include "core/comm/collective.h"
#include "core/compose/cut.h"
#include "core/compose/hosts.h"
#include "core/compose/worker.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

namespace hora {

/// The three steps in which a hierarchical operation moves data: within the host, across hosts, and within
/// the host again. It has this rank's collectives for the steps, and the memory for the data between them.
/// The operations of a hierarchical collective call `run`.
///
/// Data is cut into as many slices as every host has ranks. A small operation has one slice, because its time
/// goes into messages and not into bytes. Operands are combined first within a host, in the order of the
/// host's collective, and then across hosts. The borders of slices and chunks do not change this order.
///
/// A large operation goes in chunks, so that several steps run at the same time. While the worker moves chunk
/// k across hosts, the engine does the third step of chunk k - 1. Then it does the first step of chunk k + 1.
/// An operation of one chunk needs no worker: the engine does all its steps.
///
/// Protocol. A rank's engine calls `local` in one order: first(0), first(1), third(0), first(2), third(1) and
/// so on. The order is the same on all ranks of its host. A rank's worker calls `across` in the order of the
/// chunks, which is the same on all hosts. The engine gives chunk k to the worker when first(k) has ended
/// here. It begins third(k) when the worker has ended across(k).
///
/// No threads wait for each other in a cycle. across(k) of a slice waits for first(k) on all hosts. third(k)
/// waits for across(k) of the ranks of its host. first(k) waits for third(k - 2) and first(k - 1) of its
/// host. Each step waits only for steps that come earlier in this order of all hosts: first(0), across(0),
/// first(1), third(0), across(1), first(2), third(1) and so on. The first step waits for nothing.
///
/// The buffers for slices (`room`) alternate: first(k + 2) writes where third(k) has read, which has then
/// ended on all ranks of the host. Nothing is under way between calls. So one rank never uses `world` and
/// `across`, which may share sockets, at the same time; and all ranks use them in one order. A call with
/// several chunks that fails aborts all collectives, so that the worker returns. It waits for the worker
/// before it gives the caller's memory back.
///
/// *Engine only*, except `progress` and `abort`.
class ThreeSteps {
 public:
  /// `world`: the collective of all ranks. `local`: the collective of this host's ranks, in the order of
  /// `hosts.here()`. All ranks call it.
  ThreeSteps(std::unique_ptr<Collective> world, std::unique_ptr<Collective> local, Hosts hosts);

  [[nodiscard]] const Hosts& hosts() const { return hosts_; }
  [[nodiscard]] Collective& world() { return *world_; }
  [[nodiscard]] Collective& local() { return *local_; }
  [[nodiscard]] const Collective& local() const { return *local_; }
  /// The collective of the ranks that have this rank's place on their hosts. It exists only if every host has
  /// such a rank.
  [[nodiscard]] Collective& across() { return *across_; }

  /// The sum of the progress of all collectives. Thread-safe.
  [[nodiscard]] std::uint64_t progress() const noexcept;
  /// Aborts all collectives. Thread-safe.
  void abort(const Status& why) noexcept;

  /// Carries out all steps of all chunks. Each of the three functions gets the number of a chunk. A rank has
  /// nothing to do across hosts if some host has no rank with its place. If a step throws, `run` throws the
  /// same, and then nothing is under way. With several chunks it has also aborted all collectives.
  template <typename First, typename Across, typename Third>
  void run(const Cut& cut, const First& first, const Across& across, const Third& third) {
    if (cut.chunks() == 1) {
      first(0);
      if (across_) across(0);
      return third(0);
    }
    try {
      run_chunks(cut.chunks(), first, across, third);
    } catch (const std::exception& error) {
      abort(status_of(error));
      worker_.drain();
      throw;
    }
  }

  /// The cut of a tensor that all hosts have alike. `total`: elements; `each`: bytes of one element.
  [[nodiscard]] Cut cut(std::size_t total, std::size_t each) const;
  /// The cut of blocks that differ between hosts. `longest`: the elements of the longest block.
  [[nodiscard]] Cut cut_blocks(std::size_t longest, std::size_t each) const;
  /// The length of each slice of `length` elements, for each rank of this host, times `unit`. `unit` is 1 for
  /// lengths in elements, or the size of an element for lengths in bytes.
  [[nodiscard]] std::vector<std::size_t> slices_here(const Cut& cut, std::size_t length,
                                                     std::size_t unit) const;

  /// A buffer of at least `bytes` bytes, in memory that the host's ranks exchange fastest. `which`: its
  /// number, less than 5. The buffer is kept for the next call.
  std::byte* room(std::size_t which, std::size_t bytes);

 private:
  template <typename First, typename Across, typename Third>
  void run_chunks(std::size_t chunks, const First& first, const Across& across, const Third& third) {
    std::uint64_t task = 0;
    for (std::size_t k = 0; k <= chunks; ++k) {
      const std::uint64_t before = task;
      if (k < chunks) {
        first(k);
        if (across_) task = worker_.send([&across, k] { across(k); });
      }
      if (k == 0) continue;
      worker_.await(before);
      third(k - 1);
    }
  }
  [[nodiscard]] Cut cut(std::size_t total, std::size_t each, std::size_t chunk_bytes) const;

  struct Room {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };

  std::unique_ptr<Collective> world_;
  std::unique_ptr<Collective> local_;
  std::unique_ptr<Collective> across_;  // null if some host has no rank with this place
  Hosts hosts_;
  std::size_t most_;  // the most slices
  std::array<Room, 5> rooms_;
  Worker worker_;
};

}  // namespace hora
