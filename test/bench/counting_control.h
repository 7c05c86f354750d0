// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace hora::bench {

/// The messages that a rank has sent, read while they are counted.
struct Sent {
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<std::uint64_t> bytes = 0;
  /// When the first one went since this was last set to none.
  std::atomic<Clock::rep> first = kNone;

  static constexpr Clock::rep kNone = 0;
};

/// A control that counts what its engine sends.
class CountingControl final : public Control {
 public:
  CountingControl(std::unique_ptr<Control> inner, std::shared_ptr<Sent> sent)
      : inner_(std::move(inner)), sent_(std::move(sent)) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] const TreePosition& position() const override { return inner_->position(); }
  void send(int to, std::span<const std::byte> bytes) override {
    count(bytes);
    inner_->send(to, bytes);
  }
  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    count(bytes);
    inner_->announce(to, bytes);
  }
  std::optional<ControlEvent> receive(TimePoint deadline) override { return inner_->receive(deadline); }
  void on_event(std::function<void()> notice) override { inner_->on_event(std::move(notice)); }
  void fail(const Status& why) override { inner_->fail(why); }
  void call_off(const Status& why) override { inner_->call_off(why); }
  void on_loss(std::function<void(const Status&)> notice) override { inner_->on_loss(std::move(notice)); }

 private:
  void count(std::span<const std::byte> bytes) {
    Clock::rep none = Sent::kNone;
    sent_->first.compare_exchange_strong(none, Clock::now().time_since_epoch().count());
    ++sent_->messages;
    sent_->bytes += bytes.size();
  }

  std::unique_ptr<Control> inner_;
  std::shared_ptr<Sent> sent_;
};

}  // namespace hora::bench
