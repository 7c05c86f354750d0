// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/control_queues.h"

#include <fmt/format.h>

#include <memory>

namespace hora::local {

void ControlQueues::put(int to, ControlMessage message) {
  Queue& to_queue = queue(to);
  {
    const std::lock_guard lock(to_queue.mutex);
    message.came = Clock::now();
    to_queue.events.push_back(std::move(message));
    if (to_queue.event_notice) to_queue.event_notice();
  }
  to_queue.arrival.notify_one();
}

std::optional<ControlEvent> ControlQueues::take(int rank, TimePoint deadline) {
  Queue& own = queue(rank);
  std::unique_lock lock(own.mutex);
  const auto news = [&own] { return !own.events.empty(); };
  if (deadline == TimePoint::max()) {
    own.arrival.wait(lock, news);
  } else {
    own.arrival.wait_until(lock, deadline, news);
  }
  if (own.events.empty()) return std::nullopt;
  ControlEvent event = std::move(own.events.front());
  own.events.pop_front();
  return event;
}

void ControlQueues::on_event(int rank, std::function<void()> notice) {
  Queue& own = queue(rank);
  const std::lock_guard lock(own.mutex);
  own.event_notice = std::move(notice);
}

void ControlQueues::on_loss(int rank, std::function<void(const Status&)> notice) {
  Queue& own = queue(rank);
  const std::lock_guard lock(own.mutex);
  own.notice = std::move(notice);
  if (own.notice && own.loss) own.notice(*own.loss);
}

void ControlQueues::lose(int lost, const Status& status) {
  int first = kNone;
  if (first_lost_.compare_exchange_strong(first, lost, std::memory_order_relaxed)) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != lost) tell(rank, lost, status);
    }
  } else if (first >= 0 && first != lost) {
    tell(first, lost, status);
  }
}

void ControlQueues::tell(int rank, int lost, const Status& status) {
  Queue& own = queue(rank);
  {
    const std::lock_guard lock(own.mutex);
    if (own.loss) return;
    own.loss = status;
    own.events.push_back(PeerLost{lost, status});
    if (own.event_notice) own.event_notice();
    if (own.notice) own.notice(status);
  }
  own.arrival.notify_one();
}

namespace {

class LocalControl final : public Control {
 public:
  LocalControl(std::shared_ptr<ControlQueues> queues, int rank)
      : queues_(std::move(queues)),
        rank_(rank),
        position_(position_in_tree(rank, queues_->size(), queues_->radix())) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return queues_->size(); }
  [[nodiscard]] const TreePosition& position() const override { return position_; }
  void send(int to, std::span<const std::byte> bytes) override {
    queues_->put(to, {rank_, Bytes(bytes.begin(), bytes.end()), {}});
  }
  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    // Ascending: parents come before their children.
    for (const int rank : to.list()) send(rank, bytes);
  }
  std::optional<ControlEvent> receive(TimePoint deadline) override { return queues_->take(rank_, deadline); }
  void on_event(std::function<void()> notice) override { queues_->on_event(rank_, std::move(notice)); }
  void fail(const Status& why) override {
    queues_->lose(rank_, {Code::aborted, fmt::format("rank {} failed: {}", rank_, why.message)});
  }
  void call_off(const Status& why) override { queues_->lose(-1, why); }
  void on_loss(std::function<void(const Status&)> notice) override {
    queues_->on_loss(rank_, std::move(notice));
  }

 private:
  std::shared_ptr<ControlQueues> queues_;
  int rank_;
  TreePosition position_;
};

}  // namespace

std::unique_ptr<Control> make_local_control(std::shared_ptr<ControlQueues> queues, int rank) {
  return std::make_unique<LocalControl>(std::move(queues), rank);
}

}  // namespace hora::local
