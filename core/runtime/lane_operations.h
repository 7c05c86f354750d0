// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/group.h"
#include "core/comm/lane.h"
#include "core/fuse/pack.h"
#include "core/runtime/completion.h"
#include "core/runtime/running_batch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hora {

/// Each operation as calls of a lane: shapes of outputs, shares of ranks, and the collective that moves them.
/// Refers to its constructor's arguments, which must outlive it. *Engine only.*
class LaneOperations {
 public:
  /// `fusion_threshold`: how many bytes travel together at the most.
  LaneOperations(Lane& lane, const Members& members, Completion& completion, std::size_t fusion_threshold)
      : lane_(lane), members_(members), completion_(completion), packer_(lane, fusion_threshold) {}

  void fuse_up_to(std::size_t bytes) { packer_.fuse_up_to(bytes); }
  /// Gives the lane the work of a batch, and writes the results of its items.
  void carry_out(RunningBatch& batch);
  /// Buffers that were too small, and that work under way on the lane may still use.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> take_outgrown() { return packer_.take_outgrown(); }
  /// Whether batches note their stages for `spans_of`.
  void note_spans(bool on) { packer_.note_spans(on); }
  /// The stages of the last batch, of this kind, which has just moved.
  [[nodiscard]] std::vector<Span> spans_of(const Decision& decision, TimePoint started) const;

 private:
  [[nodiscard]] int size() const { return static_cast<int>(members_.ranks.size()); }
  void move(std::vector<BatchItem>& items, std::uint32_t* flag);
  void allreduce(std::vector<BatchItem>& items, std::uint32_t* flag);
  void reduce_by_adasum(std::span<const Segment> pieces, const Request& request, std::uint32_t* flag);
  void broadcast(const std::vector<BatchItem>& items);
  void allgather(BatchItem& item);
  void alltoall(BatchItem& item);
  void reducescatter(BatchItem& item);
  void gather(BatchItem& item);
  void scatter(BatchItem& item);
  void reduce_to_root(BatchItem& item);
  void scan(BatchItem& item);
  /// The place of the root that a decision speaks of.
  [[nodiscard]] std::size_t root_of(const Decision& decision) const;

  Lane& lane_;
  const Members& members_;
  Completion& completion_;
  Packer packer_;
};

}  // namespace hora
