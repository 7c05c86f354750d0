// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/heartbeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::chrono::milliseconds kInterval{1000};
constexpr std::chrono::milliseconds kShortestInterval{10};
constexpr int kBeatsInSilence = 4;              // at least: those that are late, or lost, are no silence
constexpr std::chrono::seconds kStandstill{3};  // at most, between two turns of a thread

std::chrono::milliseconds interval_for(std::chrono::milliseconds silence) {
  return silence.count() > 0 ? std::clamp(silence / kBeatsInSilence, kShortestInterval, kInterval)
                             : kInterval;
}

/// With less silence a stop that all ranks had, as of a virtual machine, is shorter, too.
std::chrono::milliseconds standstill_for(std::chrono::milliseconds silence) {
  return silence.count() > 0 ? std::min<std::chrono::milliseconds>(kStandstill, silence * 3 / 5)
                             : kStandstill;
}

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds silence, TimePoint now)
    : silence_(silence),
      interval_(interval_for(silence)),
      standstill_(standstill_for(silence)),
      turn_(now),
      next_(now + interval_) {}

bool Heartbeat::turn(TimePoint now) { return now - std::exchange(turn_, now) > standstill_; }

bool Heartbeat::due(TimePoint now) {
  if (now < next_) return false;
  next_ = now + interval_;
  return true;
}

std::string Heartbeat::describe_silence(const std::string& why) const {
  return fmt::format("no sign of life for {} s: {}; a longer wait is HORA_HEARTBEAT_TIMEOUT",
                     std::chrono::duration<double>(silence_).count(), why);
}

}  // namespace hora::tcp
