// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/leaving.h"

#include <utility>

namespace hora {

bool Leaving::ask(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (asked_) return false;
  asked_ = reason;
  return true;
}

std::optional<std::string> Leaving::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

void Leaving::go_on(TimePoint now) {
  if (!std::exchange(began_, true)) messages_.leave();
  if (left_ || !messages_.has_left()) return;
  tracing_.stop();
  left_ = true;
  negotiator_.leave(now);
}

}  // namespace hora
