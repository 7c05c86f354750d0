// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/host_ranks.h"
#include "runner/launch/signals.h"

#include <poll.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora::hrun {

/// Lets the ranks of a host go on, as hrun does, and keeps what happens and what they write. Takes signals
/// before it makes them, as no end of a child may be missed.
class Drive {
 public:
  explicit Drive(const std::function<std::unique_ptr<HostRanks>()>& make) : ranks_(make()) {}

  [[nodiscard]] HostRanks& ranks() { return *ranks_; }

  void until(const std::function<bool()>& done) {
    while (!done()) turn();
  }
  void until(HostRanks::State state) {
    until([&] { return ranks_->state() == state; });
  }
  /// Everything that a rank writes, up to the end.
  std::string all_of(OutputSource& source) {
    std::string text;
    until([&] {
      std::array<char, 4096> buffer{};
      if (!source.ended()) text.append(buffer.data(), source.read(buffer));
      return source.ended();
    });
    return text;
  }

  std::vector<RankEvent> events;

 private:
  void turn() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    ranks_->watch(fds);
    const TimePoint soon = Clock::now() + std::chrono::milliseconds(10);  // outputs are not watched here
    ::poll(fds.data(), fds.size(), milliseconds_until(std::min(soon, ranks_->next())));
    const TimePoint now = Clock::now();
    signals_.take(
        [&](const Signals::Child& child) { ranks_->child_changed(child.pid, child.wait_status, now); },
        [](int) {});
    for (const auto& event : ranks_->turn(now)) events.push_back(event);
  }

  Signals signals_;
  std::unique_ptr<HostRanks> ranks_;
};

}  // namespace hora::hrun
