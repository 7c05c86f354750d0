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

/// The verdicts that this rank has heard, in their order, and how they are carried out: batch by batch, on
/// the executor of their group. Refers to its constructor's arguments, which must outlive it. *Engine only.*
class WorkQueue {
 public:
  WorkQueue(Groups& groups, ProcessSetChanges& changes, BatchSizer& sizer, Tracing& tracing,
            Watchdog& watchdog)
      : groups_(groups), changes_(changes), sizer_(sizer), tracing_(tracing), watchdog_(watchdog) {}

  [[nodiscard]] bool empty() const { return work_.empty(); }
  void add(Negotiator::Heard heard);
  /// Carries out the next batch, if there is one; whether the job has ended. Throws Error if the job fails.
  bool carry_out_next();

 private:
  /// A verdict that is being carried out.
  struct Work {
    Negotiator::Heard heard;
    TimePoint decided;
    std::vector<Batch> batches = {};
    std::size_t next = 0;  // of the batches
  };
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
