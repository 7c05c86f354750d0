// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <chrono>
#include <cstdint>

namespace hora::hrun {

class Relay;

/// The wait for readers of hrun's output after the ranks have ended. Readers get everything, however slow
/// they are, for as long as they take some bytes within each grace. Refers to the relay. Not thread-safe.
class ReaderDeadline {
 public:
  ReaderDeadline(Relay& relay, std::chrono::milliseconds grace) : relay_(relay), grace_(grace) {}

  /// Looks how readers go on; the first call begins the wait. Output that no reader has taken a byte of for
  /// the grace is abandoned.
  void turn(TimePoint now);
  /// When `turn` has to be called.
  [[nodiscard]] TimePoint next() const { return deadline_; }

  /// Whether the output has been taken, or abandoned. A line on stderr says once how much was abandoned; that
  /// line has to be taken as well, unless `given_up`.
  [[nodiscard]] bool over(bool given_up);

 private:
  Relay& relay_;
  const std::chrono::milliseconds grace_;
  TimePoint deadline_ = TimePoint::max();
  std::uint64_t written_ = 0;  // that readers had taken when the grace last began anew
  bool told_ = false;
};

}  // namespace hora::hrun
