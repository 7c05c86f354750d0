// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/leaving.h"

#include <utility>

namespace hora {

void Leaving::ask() {
  const std::lock_guard lock(mutex_);
  asked_ = true;
}

bool Leaving::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

bool Leaving::stop(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  stopped_ = why;
  return true;
}

std::optional<Status> Leaving::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Leaving::go_on(TimePoint now) {
  if (!std::exchange(began_, true)) messages_.leave();
  if (left_ || !messages_.has_left()) return;
  tracing_.stop();
  left_ = true;
  negotiator_.leave(now);
}

}  // namespace hora
