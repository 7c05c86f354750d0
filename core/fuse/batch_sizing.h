// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/fuse/autotune.h"
#include "core/fuse/pace.h"
#include "core/fuse/plan.h"

#include <hora/config.h>

#include <cstddef>
#include <optional>

namespace hora {

/// Chooses, on rank 0, how much travels together, where the user has left that open: by trials
/// (HORA_AUTOTUNE), or, where the network's pace is not known, by what the first steps show. Within a host
/// the size does not matter, as long as what is packed stays in a cache. *Engine only.*
class BatchSizing {
 public:
  /// `now`: what travels together at first. `one_host`: all ranks share memory. Throws
  /// Error(invalid_argument) if the log of the trials (HORA_AUTOTUNE_LOG) cannot be written.
  BatchSizing(const Config& config, const FusionThresholds& now, bool one_host);

  /// Whether it wants to be told of batches; those of the world that are on the host count.
  [[nodiscard]] bool measures() const { return pace_.has_value(); }
  void add(std::size_t bytes, Clock::duration time) { pace_->add(bytes, time); }
  /// A step of a training has ended at `now`, in which `host` bytes of the host travelled together. How many
  /// bytes are to travel together from now on, if that is to change.
  std::optional<std::size_t> end_step(TimePoint now, std::size_t host);

 private:
  std::optional<Pace> pace_;
  std::optional<Autotune> autotune_;
  int paced_steps_ = 0;
};

}  // namespace hora
