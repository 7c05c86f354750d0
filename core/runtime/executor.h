// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/fuse/pack.h"
#include "core/fuse/plan.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/recorder.h"

#include <span>
#include <vector>

namespace hora {

/// Carries out batches: takes their tensors from the table, moves them over the lane, and gives them back. If
/// moving fails, the tensors get the error, and it is thrown on: the run is over. *Engine only.*
class Executor {
 public:
  Executor(Lane& lane, TensorTable& table, Recorder& recorder, int rank, int size,
           std::size_t fusion_threshold)
      : lane_(lane),
        table_(table),
        recorder_(recorder),
        rank_(rank),
        size_(size),
        packer_(lane, fusion_threshold) {}

  /// `decided`: when the decisions were heard.
  void carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  /// Gives the tensor of a decision that is not ok back, if this rank has it.
  void refuse(const Decision& decision, TimePoint decided);

 private:
  /// A decision and this rank's tensor for it.
  struct Item {
    const Decision* decision = nullptr;
    Loan loan;
    Result result;
  };
  Item borrow(const Decision& decision);
  void move(std::vector<Item>& items);
  void allreduce(std::vector<Item>& items);
  void broadcast(Item& item);
  void allgather(Item& item);
  void give_back(Item item, TimePoint decided, TimePoint started);

  Lane& lane_;
  TensorTable& table_;
  Recorder& recorder_;
  int rank_;
  int size_;
  Packer packer_;
};

}  // namespace hora
