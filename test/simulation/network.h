// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// A clock that only goes on when something happens, and all that is going to: no threads, no waiting.
class Events {
 public:
  [[nodiscard]] TimePoint now() const { return now_; }
  /// Events of one time happen in the order in which they were planned.
  void at(TimePoint when, std::function<void()> what);
  void after(Clock::duration time, std::function<void()> what) { at(now_ + time, std::move(what)); }
  /// Lets the next thing happen; false if nothing is left.
  bool next();

 private:
  struct Event {
    TimePoint when;
    std::uint64_t number;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Event& one, const Event& other) const {
      return std::pair(one.when, one.number) > std::pair(other.when, other.number);
    }
  };
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::uint64_t planned_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
};

/// Connections between rank 0 and all others, as those of control: messages of one sender arrive in order,
/// after times of their own; and those of a tree. A rank that dies is noticed a while later by those that are
/// connected with rank 0, and by the others through it.
class Network {
 public:
  /// `radix`: of the tree; 0: a star. `arrived(rank)`: there is something to receive. `lost(rank, why)`:
  /// there is a PeerLost.
  Network(Events& events, std::mt19937_64& random, int size, int radix, std::function<void(int)> arrived,
          std::function<void(int, const Status&)> lost);

  [[nodiscard]] std::unique_ptr<Control> control(int rank);
  /// A rank sends and receives nothing any more; others notice that after `time`.
  void kill(int rank, Clock::duration time);
  [[nodiscard]] bool alive(int rank) const { return alive_[static_cast<std::size_t>(rank)]; }

 private:
  friend class SimulatedControl;
  void send(int from, int to, std::function<void()> arrive);
  /// A rank's control hands on what it has taken for its own engine.
  void hand_on(int rank, const RankSet& to, const std::shared_ptr<const Bytes>& bytes);
  void deliver(int from, int to, Bytes bytes);
  void lose(int rank, int lost, const Status& why);
  /// Rank 0 has heard of a loss.
  void spread(int lost, const Status& why);
  [[nodiscard]] Clock::duration latency();

  Events& events_;
  std::mt19937_64& random_;
  int size_;
  int radix_;
  std::function<void(int)> arrived_;
  std::function<void(int, const Status&)> lost_;
  std::vector<bool> alive_;
  std::vector<bool> knows_;  // of a loss
  std::vector<std::deque<ControlEvent>> inboxes_;
  std::map<std::pair<int, int>, TimePoint> last_;  // arrival from one to the other
};

}  // namespace hora
