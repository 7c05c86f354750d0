// SPDX-License-Identifier: Apache-2.0
#include "test/simulation/network.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {

using std::chrono::microseconds;

void Events::at(TimePoint when, std::function<void()> what) {
  events_.push({std::max(when, now_), planned_++, std::move(what)});
}

bool Events::next() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.when;
  event.what();
  return true;
}

class SimulatedControl final : public Control {
 public:
  SimulatedControl(Network& network, int rank)
      : network_(network), rank_(rank), position_(position_in_tree(rank, network.size_, network.radix_)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return network_.size_; }
  [[nodiscard]] const TreePosition& position() const override { return position_; }

  void send(int to, std::span<const std::byte> bytes) override {
    network_.send(rank_, to, [this, to, message = Bytes(bytes.begin(), bytes.end())] {
      network_.deliver(rank_, to, message);
    });
  }

  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    network_.hand_on(rank_, to, std::make_shared<const Bytes>(bytes.begin(), bytes.end()));
  }

  std::optional<ControlEvent> receive(TimePoint /*deadline*/) override {
    auto& events = network_.inboxes_[static_cast<std::size_t>(rank_)];
    if (events.empty()) return std::nullopt;
    ControlEvent event = std::move(events.front());
    events.pop_front();
    return event;
  }

  void on_event(std::function<void()> /*notice*/) override {}  // `arrived` is told of it
  void fail(const Status& why) override {
    network_.knows_[static_cast<std::size_t>(rank_)] = true;
    tell({Code::aborted, fmt::format("rank {} failed: {}", rank_, why.message)}, rank_);
  }
  void call_off(const Status& why) override { tell(why, -1); }
  void on_loss(std::function<void(const Status&)> /*notice*/) override {}

 private:
  void tell(const Status& why, int who) {
    if (rank_ == 0) return network_.spread(who, why);
    network_.send(rank_, 0, [this, why, who] { network_.spread(who, why); });
  }

  Network& network_;
  int rank_;
  TreePosition position_;
};

Network::Network(Events& events, std::mt19937_64& random, int size, int radix,
                 std::function<void(int)> arrived, std::function<void(int, const Status&)> lost)
    : events_(events),
      random_(random),
      size_(size),
      radix_(radix),
      arrived_(std::move(arrived)),
      lost_(std::move(lost)),
      alive_(static_cast<std::size_t>(size), true),
      knows_(static_cast<std::size_t>(size)),
      inboxes_(static_cast<std::size_t>(size)) {}

std::unique_ptr<Control> Network::control(int rank) {
  return std::make_unique<SimulatedControl>(*this, rank);
}

void Network::kill(int rank, Clock::duration time) {
  alive_[static_cast<std::size_t>(rank)] = false;
  const Status why{Code::aborted, fmt::format("rank {} is gone", rank)};
  if (rank != 0) {
    events_.after(time, [this, rank, why] { spread(rank, why); });
    return;
  }
  for (int other = 1; other < size_; ++other)
    events_.after(time + latency(), [this, other, why] { lose(other, 0, why); });
}

void Network::send(int from, int to, std::function<void()> arrive) {
  if (!alive(from)) return;
  TimePoint& last = last_[{from, to}];
  last = std::max(last, events_.now() + latency());
  events_.at(last, [this, to, arrive = std::move(arrive)] {
    if (alive(to)) arrive();
  });
}

void Network::hand_on(int rank, const RankSet& to, const std::shared_ptr<const Bytes>& bytes) {
  const TreePosition position = position_in_tree(rank, size_, radix_);
  for (std::size_t i = 0; i < position.children.size(); ++i) {
    const int child = position.children[i];
    const RankSet part = to.common(position.below(i));
    if (part.empty()) continue;
    send(rank, child, [this, child, part, bytes] {
      if (part.contains(child)) deliver(0, child, *bytes);
      hand_on(child, part, bytes);
    });
  }
}

void Network::deliver(int from, int to, Bytes bytes) {
  inboxes_[static_cast<std::size_t>(to)].push_back(ControlMessage{from, std::move(bytes), events_.now()});
  arrived_(to);
}

void Network::lose(int rank, int lost, const Status& why) {
  const auto who = static_cast<std::size_t>(rank);
  if (!alive(rank) || knows_[who]) return;
  knows_[who] = true;
  inboxes_[who].push_back(PeerLost{lost, why});
  lost_(rank, why);
}

void Network::spread(int lost, const Status& why) {
  if (!alive(0)) return;
  const bool known = knows_[0] && lost != 0;
  lose(0, lost, why);
  if (known) return;
  for (int other = 1; other < size_; ++other) {
    if (other != lost) send(0, other, [this, other, lost, why] { lose(other, lost, why); });
  }
}

/// Mostly some tens of microseconds; one message in fifty waits for up to a tenth of a second.
Clock::duration Network::latency() {
  const auto usual = static_cast<std::int64_t>(20 + random_() % 60);
  const bool waits = random_() % 50 == 0;
  return microseconds(usual + (waits ? static_cast<std::int64_t>(random_() % 100'000) : 0));
}

}  // namespace hora
