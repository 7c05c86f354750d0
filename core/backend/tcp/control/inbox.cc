// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/inbox.h"

#include <utility>

namespace hora::tcp {

void Inbox::put(ControlEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrival_.notify_one();
  const std::lock_guard lock(notice_mutex_);
  if (notice_) notice_();
}

std::optional<ControlEvent> Inbox::receive(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto news = [this] { return !events_.empty(); };
  if (deadline == TimePoint::max()) {
    arrival_.wait(lock, news);
  } else if (deadline > TimePoint::min()) {
    arrival_.wait_until(lock, deadline, news);
  }
  if (events_.empty()) return std::nullopt;
  ControlEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Inbox::on_event(std::function<void()> notice) {
  const std::lock_guard lock(notice_mutex_);
  notice_ = std::move(notice);
}

}  // namespace hora::tcp
