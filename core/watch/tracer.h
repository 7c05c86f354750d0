// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/watch/trace.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace hora {

/// Collects the events of this rank while a timeline is wanted, until they are worth sending. Thread-safe.
class Tracer {
 public:
  void start(bool mark_cycles);
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  // They do nothing while it is off.
  void add(Traced traced);
  void mark_cycle(TimePoint now);

  /// The events so far, if they are many or old.
  std::optional<TracePart> take(TimePoint now);
  /// The events that are left; from now on the tracer is off.
  TracePart stop(TimePoint now);

 private:
  TracePart take_all(TimePoint now);

  // Changed under the mutex; a thread that reads it without the mutex only asks whether it is worth the
  // trouble.
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  // Under the mutex:
  bool mark_cycles_ = false;
  TracePart part_;
  TimePoint taken_;
};

}  // namespace hora
