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

/// Rank 0's choice of how many bytes travel together, with what it needs to be told, and how the other ranks
/// hear of it. Does nothing on other ranks, and in a job of one. Refers to its constructor's arguments, which
/// must outlive it. *Engine only.*
class BatchSizer {
 public:
  /// Throws Error(invalid_argument) if the log of the trials (HORA_AUTOTUNE_LOG) cannot be written. The other
  /// ranks hear that, and fail, too.
  BatchSizer(World& world, const Config& config, const Groups& groups, Negotiator& negotiator);

  /// Whether it wants to be told of a batch of this group that begins with such a request.
  [[nodiscard]] bool measures(const Request& first, int group) const;
  /// A batch of so many bytes has taken so long.
  void add(std::size_t bytes, Clock::duration time) { sizing_->add(bytes, time); }
  /// A step of a training has ended.
  void end_step(TimePoint now);

 private:
  const Groups& groups_;
  Negotiator& negotiator_;
  std::optional<BatchSizing> sizing_;
};

}  // namespace hora
