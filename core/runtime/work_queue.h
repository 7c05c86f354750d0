// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/fuse/plan.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/batch_sizer.h"
#include "core/runtime/groups.h"
#include "core/runtime/process_set_changes.h"
#include "core/runtime/tracing.h"
#include "core/watch/watchdog.h"

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace hora {

/// The queue of verdicts that this rank has heard and not yet carried out. The Loop adds verdicts, and calls
/// `carry_out_next` once in each turn. Verdicts are carried out in their order, one batch at a time, by the
/// Executor of their group. A verdict may also change process sets, the batch size or the trace. Refers to
/// its constructor's arguments, which must outlive it. *Engine only.*
class WorkQueue {
 public:
  WorkQueue(Groups& groups, ProcessSetChanges& changes, BatchSizer& sizer, Tracing& tracing,
            Watchdog& watchdog)
      : groups_(groups), changes_(changes), sizer_(sizer), tracing_(tracing), watchdog_(watchdog) {}

  [[nodiscard]] bool empty() const { return work_.empty(); }
  /// Appends a verdict. The time of this call counts as the time when its decisions were heard.
  void add(Negotiator::Heard heard);
  /// Carries out the next batch of the oldest verdict, or all of that verdict if it has no batch. Does
  /// nothing if the queue is empty. Returns true after the verdict that ends the job. Throws Error if the job
  /// fails.
  bool carry_out_next();

 private:
  /// A verdict, and how far it has been carried out.
  struct Work {
    Negotiator::Heard heard;
    TimePoint decided;  // when the verdict was heard
    std::vector<Batch> batches = {};
    std::size_t next = 0;  // the index of the next batch
  };
  void end_groups(const std::vector<int>& groups);
  void carry_out_next(Executor& host, Work& work);
  void carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  void carry_out_on_host(Executor& host, std::span<const Decision> decisions, const Batch& batch,
                         TimePoint decided);

  Groups& groups_;
  ProcessSetChanges& changes_;
  BatchSizer& sizer_;
  Tracing& tracing_;
  Watchdog& watchdog_;
  std::deque<Work> work_;
};

}  // namespace hora
