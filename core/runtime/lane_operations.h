// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/group.h"
#include "core/comm/lane.h"
#include "core/compose/block_float_sums.h"
#include "core/fuse/pack.h"
#include "core/runtime/completion.h"
#include "core/runtime/running_batch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hora {

/// Carries out each operation by calls of a lane. It computes the shapes of the outputs and the share of each
/// rank, and calls the collective. Each Executor has one. Refers to its constructor's arguments, which must
/// outlive it. *Engine only.*
class LaneOperations {
 public:
  /// `fusion_threshold`: the most bytes that travel together.
  LaneOperations(Lane& lane, const Members& members, Completion& completion, std::size_t fusion_threshold)
      : lane_(lane), members_(members), completion_(completion), packer_(lane, fusion_threshold) {}

  /// Changes the fusion threshold. All ranks do so at the same point in the order of decisions.
  void fuse_up_to(std::size_t bytes) { packer_.fuse_up_to(bytes); }
  /// Gives the lane the work of a batch, whose items all have the same operation. Writes the shapes and rows
  /// of the results into the items.
  void carry_out(RunningBatch& batch);
  /// Returns the buffers that were too small and were replaced. Work under way on the lane may still use
  /// them.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> take_outgrown() { return packer_.take_outgrown(); }
  /// Sets whether `carry_out` notes the times of the stages (pack, transfer, unpack) for `spans_of`.
  void note_spans(bool on) { packer_.note_spans(on); }
  /// The stages of the batch that `carry_out` has just moved. `decision`: one of that batch; `started`: when
  /// the batch began.
  [[nodiscard]] std::vector<Span> spans_of(const Decision& decision, TimePoint started) const;

 private:
  [[nodiscard]] int size() const { return static_cast<int>(members_.ranks.size()); }
  /// `flag`: set by the work if an output is not finite; null: nobody asks for that.
  void move(std::vector<BatchItem>& items, std::uint32_t* flag);
  void allreduce(std::vector<BatchItem>& items, std::uint32_t* flag);
  void reduce_by_adasum(std::span<const Segment> pieces, const Request& request, std::uint32_t* flag);
  /// For elements that travel in blocks.
  [[nodiscard]] BlockFloatSums block_sums();
  void broadcast(const std::vector<BatchItem>& items);
  void allgather(BatchItem& item);
  void alltoall(BatchItem& item);
  void reducescatter(BatchItem& item);
  /// Gives each rank its part of a reduction, the elements of whose parts are `counts`.
  void reduce_parts(const BatchItem& item, std::span<const std::size_t> counts);
  void gather(BatchItem& item);
  void scatter(BatchItem& item);
  void reduce_to_root(BatchItem& item);
  void scan(BatchItem& item);
  /// The place, in this group, of the root of a decision.
  [[nodiscard]] std::size_t root_of(const Decision& decision) const;

  Lane& lane_;
  const Members& members_;
  Completion& completion_;
  Packer packer_;
};

}  // namespace hora
