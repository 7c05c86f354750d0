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

/// The way in which a hierarchical operation moves data: a step within the host, a step across hosts, and a
/// step within the host. Has the collectives of this rank for these, and memory for the data between the
/// steps.
///
/// There are as many slices as every host has ranks. There is one where there is little to move, as then time
/// goes into messages and not into bytes. Operands are taken in the order of the host's collective within a
/// host, and then by host, as the collective across hosts does it; where a slice or a chunk begins changes
/// nothing about that.
///
/// A large operation goes in chunks, so that all steps are under way at a time. While the worker has chunk k
/// across, the engine does the third step of chunk k - 1. Then it does the first of chunk k + 1.
///
/// Protocol. A rank's engine calls `local` in one order: first(0), first(1), third(0), first(2), third(1)
/// and so on. The order is the same on all ranks of its host. A rank's worker calls `across` in the order
/// of the chunks, the same on all hosts. The engine gives the worker chunk k when first(k) has ended here,
/// and begins third(k) when the worker has brought it. No thread waits in a ring: across(k) of a slice waits
/// for first(k) on all hosts; third(k) for across(k) of the ranks of its host; first(k) for third(k - 2) and
/// first(k - 1) of its host. Each waits for what comes earlier in the order first(0), across(0), first(1),
/// third(0), across(1), first(2), third(1)... of all hosts, whose first one waits for nothing.
///
/// Rooms for slices alternate: first(k + 2) writes where third(k) has read, which has then ended on all ranks
/// of the host. Between calls nothing is under way. So `world` and `across`, which may share sockets, are
/// never used at the same time by one rank, and in one order by all. A call that fails aborts everything, so
/// that the worker comes back, and waits for it before it gives the caller's memory back.
///
/// *Engine only*, except `progress` and `abort`.
class ThreeSteps {
 public:
  /// `world`: over all ranks; `local`: over the ranks of this host, in the order of `hosts.here()`. All ranks
  /// call it.
  ThreeSteps(std::unique_ptr<Collective> world, std::unique_ptr<Collective> local, Hosts hosts);

  [[nodiscard]] const Hosts& hosts() const { return hosts_; }
  [[nodiscard]] Collective& world() { return *world_; }
  [[nodiscard]] Collective& local() { return *local_; }
  [[nodiscard]] const Collective& local() const { return *local_; }
  /// Over the ranks with this one's place on all hosts. Only if each host has such a rank.
  [[nodiscard]] Collective& across() { return *across_; }

  [[nodiscard]] std::uint64_t progress() const noexcept;
  void abort(const Status& why) noexcept;

  /// Carries out all steps of all chunks, each given by its number. A rank whose place some hosts lack has
  /// nothing to do across hosts. If a step throws, everything is aborted, and nothing is under way when this
  /// throws.
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

  /// The cut of a tensor that is one for all hosts: elements, and bytes of each.
  [[nodiscard]] Cut cut(std::size_t total, std::size_t each) const;
  /// The cut of blocks, of which each host has its own.
  [[nodiscard]] Cut cut_blocks(std::size_t longest, std::size_t each) const;
  /// The share that each rank of this host has of `length` elements when they are cut into slices: elements
  /// of `unit`.
  [[nodiscard]] std::vector<std::size_t> slices_here(const Cut& cut, std::size_t length,
                                                     std::size_t unit) const;

  /// At least `bytes` of memory that the host's ranks exchange fastest; kept for the next call.
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
  std::unique_ptr<Collective> across_;  // null beyond `most_`
  Hosts hosts_;
  std::size_t most_;  // slices
  std::array<Room, 5> rooms_;
  Worker worker_;
};

}  // namespace hora
