// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/rounds.h"
#include "core/backend/shm/sums.h"
#include "core/comm/collective.h"
#include "core/device/fastest_copy.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hora::shm {

/// Sums of buffers that lie in their owners' private memory, a part at a time by way of the stages. Every
/// rank has a share of each part to sum, for all or for itself.
///
/// In an allreduce it copies the others' shares into its own stage (`bring`); sums its own share of what the
/// others have brought and of what lies in its own buffer, and puts the sums where the others' elements were
/// (`sum`); and copies the sums of the others out of its own stage (`take`). So an element that another rank
/// sums crosses from cache to cache once there and once back, and stores into stages go to lines that the
/// core has just read. Only where its own share does not lie in one piece, that goes by way of its own stage,
/// too.
///
/// Those stores go through the caches, unless `streams` says otherwise. That is not tuned: stores that bypass
/// the caches cost this rank about as much, but the others then read the stage from memory, and the next
/// stores find none of it in a cache, so each way would be judged by what the other one has left behind.
///
/// After `bring` and after `sum` all wait for all. After the second wait nobody else touches this rank's
/// stage, so one is enough. *Engine only.*
class StagedSums {
 public:
  /// `fastest_copy`: for a reducescatter, whose stores go to lines that others have read.
  StagedSums(const Communicator& communicator, Rounds& rounds, Sums& sums, FastestCopy& fastest_copy,
             std::optional<bool> streams = {});

  /// Once all have met.
  void allreduce(std::span<const Segment> segments, const Reduction& reduction);
  /// `whole.output` takes elements [begin, end) of the sums, which are this rank's. Others only read its
  /// stage.
  void reducescatter(const Segment& whole, std::size_t begin, std::size_t end, const Reduction& reduction);

 private:
  /// Some elements of all segments seen as one tensor.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t each = 0;  ///< bytes of an element
  };

  void bring(std::span<const Segment> segments, const Part& part);
  void sum(const Part& part, const Reduction& reduction);
  void take(std::span<const Segment> segments, const Part& part);

  void copy_in(FastestCopy& copy, std::span<const Segment> segments, const Part& part, std::size_t begin,
               std::size_t end);
  void copy_out(std::span<const Segment> segments, const Part& part, std::size_t begin, std::size_t end);
  [[nodiscard]] std::size_t share(const Part& part, int place) const;
  [[nodiscard]] std::byte* staged(const Part& part, int place, std::size_t element) const;

  Communicator communicator_;
  Rounds& rounds_;
  Sums& sums_;
  FastestCopy copy_to_lines_just_read_;
  FastestCopy& fastest_copy_;
  // Of the kernel call at hand.
  std::vector<const void*> inputs_;  // by place
  std::vector<void*> outputs_;
  // This rank's share of the part at hand, where it lies in one piece; else it goes by way of the stage as
  // well.
  const std::byte* own_input_ = nullptr;
  std::byte* own_output_ = nullptr;
};

}  // namespace hora::shm
