// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

namespace hora::tcp {

/// The events that have arrived and wait for the engine. `put` and the notice are for any thread; one thread
/// receives. `notice_mutex_` is held while the notice runs, and never together with `mutex_`.
class Inbox {
 public:
  /// Adds an event, wakes the receiver, and runs the notice.
  void put(ControlEvent event);
  /// As Control::receive.
  std::optional<ControlEvent> receive(TimePoint deadline);
  /// As Control::on_event.
  void on_event(std::function<void()> notice);

 private:
  std::mutex mutex_;
  std::condition_variable arrival_;
  std::deque<ControlEvent> events_;
  std::mutex notice_mutex_;
  std::function<void()> notice_;
};

}  // namespace hora::tcp
