// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/post_office.h"

#include <fmt/format.h>

#include <memory>

namespace hora::local {

void PostOffice::put(int to, ControlMessage message) {
  Box& to_box = box(to);
  {
    const std::lock_guard lock(to_box.mutex);
    message.came = Clock::now();
    to_box.events.push_back(std::move(message));
    if (to_box.event_notice) to_box.event_notice();
  }
  to_box.arrival.notify_one();
}

std::optional<ControlEvent> PostOffice::take(int rank, TimePoint deadline) {
  Box& own = box(rank);
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

void PostOffice::on_event(int rank, std::function<void()> notice) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  own.event_notice = std::move(notice);
}

void PostOffice::on_loss(int rank, std::function<void(const Status&)> notice) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  own.notice = std::move(notice);
  if (own.notice && own.loss) own.notice(*own.loss);
}

void PostOffice::lose(int lost, const Status& status) {
  int first = kNone;
  if (first_lost_.compare_exchange_strong(first, lost, std::memory_order_relaxed)) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != lost) tell(rank, lost, status);
    }
  } else if (first >= 0 && first != lost) {
    tell(first, lost, status);
  }
}

void PostOffice::tell(int rank, int lost, const Status& status) {
  Box& own = box(rank);
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
  LocalControl(std::shared_ptr<PostOffice> office, int rank)
      : office_(std::move(office)),
        rank_(rank),
        position_(position_in_tree(rank, office_->size(), office_->radix())) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return office_->size(); }
  [[nodiscard]] const TreePosition& position() const override { return position_; }
  void send(int to, std::span<const std::byte> bytes) override {
    office_->put(to, {rank_, Bytes(bytes.begin(), bytes.end()), {}});
  }
  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    // Ascending: parents come before their children.
    for (const int rank : to.list()) send(rank, bytes);
  }
  std::optional<ControlEvent> receive(TimePoint deadline) override { return office_->take(rank_, deadline); }
  void on_event(std::function<void()> notice) override { office_->on_event(rank_, std::move(notice)); }
  void fail(const Status& why) override {
    office_->lose(rank_, {Code::aborted, fmt::format("rank {} failed: {}", rank_, why.message)});
  }
  void call_off(const Status& why) override { office_->lose(-1, why); }
  void on_loss(std::function<void(const Status&)> notice) override {
    office_->on_loss(rank_, std::move(notice));
  }

 private:
  std::shared_ptr<PostOffice> office_;
  int rank_;
  TreePosition position_;
};

}  // namespace

std::unique_ptr<Control> make_local_control(std::shared_ptr<PostOffice> office, int rank) {
  return std::make_unique<LocalControl>(std::move(office), rank);
}

}  // namespace hora::local
