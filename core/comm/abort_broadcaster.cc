// SPDX-License-Identifier: Apache-2.0
#include "core/comm/abort_broadcaster.h"

#include <numeric>

namespace hora {

void AbortBroadcaster::watch(Collective& collective) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&collective);
  if (rung_) collective.abort(*rung_);
}

void AbortBroadcaster::forget(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  std::erase(watched_, &collective);
}

std::uint64_t AbortBroadcaster::progress() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(
      watched_.begin(), watched_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Collective* collective) { return sum + collective->progress(); });
}

void AbortBroadcaster::ring(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!rung_) rung_ = why;
  for (auto* collective : watched_) collective->abort(why);
}

}  // namespace hora
