// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/running_batch.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/recorder.h"
#include "core/watch/tracer.h"

#include <memory>

namespace hora {

/// Gives the tensors of one group's batches back to their owners with the results, and records them.
/// Completions call it: on the engine, and for GPUs on the completer's thread too. Refers to its
/// constructor's arguments, which must outlive it.
class Finisher {
 public:
  Finisher(TensorTable& table, Recorder& recorder, Tracer& tracer, int group)
      : table_(table), recorder_(recorder), tracer_(tracer), group_(group) {}

  /// Tells the owners of the tensors that the work is in the queue of a GPU. It is done when the GPU reaches
  /// `end`.
  void launch(RunningBatch& batch, const std::shared_ptr<Event>& end);
  /// Gives all tensors back. `status`: ok, or the error that each tensor gets, which then holds undefined
  /// values. `ended`: no device uses the tensors' memory any more. If `ended` is false, memory that a GPU may
  /// still use is never freed.
  void finish(RunningBatch batch, const Status& status, bool ended);

 private:
  /// `keeps`: the entry and its memory are never freed.
  void give_back(BatchItem item, const RunningBatch& batch, bool keeps);
  void record(const BatchItem& item, const RunningBatch& batch);

  TensorTable& table_;
  Recorder& recorder_;
  Tracer& tracer_;
  int group_;
};

}  // namespace hora
