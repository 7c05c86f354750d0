// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <chrono>
#include <string>

namespace hora::tcp {

/// The times at which one end of control's connections beats, and gives the others up.
///
/// Once a second, and oftener where less silence is borne, both ends of a connection beat. An end that has
/// heard nothing for the time-out takes the other for lost: it is stopped, or its host or the network is
/// down. A thread that notices that it has not run for three seconds, or three fifths of a shorter time-out,
/// was stopped itself; it blames no rank, and starts to wait anew. For one thread.
class Heartbeat {
 public:
  /// `silence`: Config::heartbeat_timeout; 0: nobody is given up.
  Heartbeat(std::chrono::milliseconds silence, TimePoint now);

  /// This thread has come out of its wait. Returns whether it was stopped itself meanwhile.
  bool turn(TimePoint now);
  /// Whether it is time to beat; then the next beat is one interval later.
  bool due(TimePoint now);
  /// When to beat next.
  [[nodiscard]] TimePoint next() const { return next_; }
  /// When a rank that was heard last then is given up.
  [[nodiscard]] TimePoint ends(TimePoint heard) const {
    return silence_.count() > 0 ? heard + silence_ : TimePoint::max();
  }
  /// "no sign of life for 5 s: it is stopped; a longer wait is HORA_HEARTBEAT_TIMEOUT"
  [[nodiscard]] std::string describe_silence(const std::string& why) const;

 private:
  std::chrono::milliseconds silence_;
  std::chrono::milliseconds interval_;
  std::chrono::milliseconds standstill_;
  TimePoint turn_;
  TimePoint next_;
};

}  // namespace hora::tcp
