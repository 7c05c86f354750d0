// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/running_batch.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/recorder.h"
#include "core/watch/tracer.h"

#include <memory>

namespace hora {

/// Gives the tensors of a group's batches back to their owners with their results, and records them. Refers
/// to its constructor's arguments, which must outlive it. *Engine*, and the completer's thread.
class Finisher {
 public:
  Finisher(TensorTable& table, Recorder& recorder, Tracer& tracer, int group)
      : table_(table), recorder_(recorder), tracer_(tracer), group_(group) {}

  /// Tells the owners of the tensors that the work was given to a GPU, and is done when that reaches `end`.
  void launch(RunningBatch& batch, const std::shared_ptr<Event>& end);
  /// Gives all tensors back. `status`: not ok: they hold undefined values. `ended`: nothing uses their memory
  /// any more; false: memory that a GPU may still use is never freed.
  void finish(RunningBatch batch, const Status& status, bool ended);

 private:
  void give_back(BatchItem item, const RunningBatch& batch, bool keeps);
  void record(const BatchItem& item, const RunningBatch& batch);

  TensorTable& table_;
  Recorder& recorder_;
  Tracer& tracer_;
  int group_;
};

}  // namespace hora
