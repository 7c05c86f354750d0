// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace hora::local {

/// The control messages between ranks that are threads: one queue per rank, each with its own lock. No lock
/// is taken while another is held, so there is no order to get wrong. Thread-safe.
class ControlQueues {
 public:
  /// `radix`: of the tree; 0: a star.
  explicit ControlQueues(int size, int radix = 0) : radix_(radix), queues_(static_cast<std::size_t>(size)) {}

  void put(int to, ControlMessage message);
  std::optional<ControlEvent> take(int rank, TimePoint deadline);
  void on_event(int rank, std::function<void()> notice);
  void on_loss(int rank, std::function<void(const Status&)> notice);
  /// Puts a PeerLost into every queue but the lost rank's, which may be -1. Only the first loss of the
  /// job counts: ranks that hear of it fail, before others have heard of it, and name themselves. The lost
  /// rank itself hears of the second one, as it may still run.
  void lose(int lost, const Status& status);

  [[nodiscard]] int radix() const { return radix_; }
  [[nodiscard]] int size() const { return static_cast<int>(queues_.size()); }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable arrival;
    std::deque<ControlEvent> events;
    std::optional<Status> loss;
    // Both run under the lock, so that clearing them waits for a running one.
    std::function<void()> event_notice;
    std::function<void(const Status&)> notice;
  };
  Queue& queue(int rank) { return queues_[static_cast<std::size_t>(rank)]; }

  void tell(int rank, int lost, const Status& status);

  static constexpr int kNone = -2;
  int radix_;
  // The call that sets it tells all ranks. No other memory is read by way of it, so it needs no order.
  std::atomic<int> first_lost_ = kNone;
  std::vector<Queue> queues_;
};

/// `rank`'s view of the queues.
std::unique_ptr<Control> make_local_control(std::shared_ptr<ControlQueues> queues, int rank);

}  // namespace hora::local
