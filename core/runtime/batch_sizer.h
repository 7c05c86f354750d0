// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/world.h"
#include "core/fuse/batch_sizing.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/groups.h"

#include <hora/config.h>

#include <cstddef>
#include <optional>

namespace hora {

/// Tunes on rank 0 how many bytes travel together in one batch. The WorkQueue reports how long batches took
/// (`add`), and the Loop reports the end of each training step (`end_step`). A verdict tells all ranks each
/// new size. On other ranks, and in a job of one rank, the object does nothing. Refers to its constructor's
/// arguments, which must outlive it. *Engine only.*
class BatchSizer {
 public:
  /// Throws Error(invalid_argument) if the log of the trials (HORA_AUTOTUNE_LOG) cannot be written. The job
  /// then fails with this error on all ranks.
  BatchSizer(World& world, const Config& config, const Groups& groups, Negotiator& negotiator);

  /// Whether a batch of `group` whose first request is `first` is to be reported with `add`. False on all
  /// ranks but rank 0.
  [[nodiscard]] bool measures(const Request& first, int group) const;
  /// Reports that a batch of this many bytes took `time`. Only for a batch for which `measures` is true.
  void add(std::size_t bytes, Clock::duration time) { sizing_->add(bytes, time); }
  /// Reports that a step of the training has ended at `now`. Announces a new size, if there is one.
  void end_step(TimePoint now);

 private:
  const Groups& groups_;
  Negotiator& negotiator_;
  std::optional<BatchSizing> sizing_;
};

}  // namespace hora
