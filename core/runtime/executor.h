// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/group.h"
#include "core/comm/lane.h"
#include "core/fuse/plan.h"
#include "core/gpu/gpu_lanes.h"
#include "core/runtime/completion.h"
#include "core/runtime/finisher.h"
#include "core/runtime/lane_operations.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/recorder.h"
#include "core/watch/tracer.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hora {

/// Carries out a group's batches: takes their tensors from the table, moves them over the lane, and leaves
/// them to the completion, which gives them back. If moving fails, the tensors get the error, and it is
/// thrown on: the run is over. A rank that has joined has no tensors: it moves stand-ins. *Engine only.*
class Executor {
 public:
  /// `gpu`: of a lane for tensors on a GPU; nothing: they are in the host's memory.
  Executor(Lane& lane, TensorTable& table, Recorder& recorder, Tracer& tracer, Members members,
           std::size_t fusion_threshold, std::optional<GpuSide> gpu = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] const Members& members() const { return members_; }
  [[nodiscard]] Lane& lane() { return lane_; }

  /// How many bytes travel together at the most, from now on.
  void fuse_up_to(std::size_t bytes) { operations_.fuse_up_to(bytes); }
  /// `decided`: when the decisions were heard.
  void carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  /// Gives the tensor of a decision back with this result, if this rank has it.
  void conclude(const Decision& decision, Result result, TimePoint decided);

 private:
  Status move(std::span<const Decision> decisions, const Batch& batch, RunningBatch& running);
  BatchItem borrow(const Decision& decision);
  BatchItem stand_in(const Decision& decision);

  Lane& lane_;
  TensorTable& table_;
  Tracer& tracer_;
  Members members_;
  Finisher finisher_;
  std::unique_ptr<Completion> completion_;
  LaneOperations operations_;
  std::vector<std::shared_ptr<std::byte>> kept_;  ///< buffers that were outgrown while there were graphs
};

}  // namespace hora
