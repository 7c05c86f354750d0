// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/messages.h"
#include "core/runtime/tracing.h"

#include <mutex>
#include <optional>
#include <string>

namespace hora {

/// The steps in which this rank leaves the job. Any thread asks for that with `ask`; then the loop calls
/// `go_on` in each turn. First, all messages that this rank has sent must arrive. Then this rank stops its
/// trace and tells rank 0 that it has left. `stop` ends the loop without any of this. Refers to its
/// constructor's arguments, which must outlive it. *Engine only*, except `ask`, `asked`, `stop`, and
/// `stopped`.
class Leaving {
 public:
  Leaving(Messages& messages, Tracing& tracing, Negotiator& negotiator)
      : messages_(messages), tracing_(tracing), negotiator_(negotiator) {}

  /// Asks this rank to leave in order. Thread-safe.
  void ask();
  [[nodiscard]] bool asked() const;

  /// Ends the loop for this reason, also while it leaves in order. Returns false if a thread has done so
  /// before: the first reason counts. Thread-safe.
  bool stop(const Status& why);
  /// The first reason; nothing: the loop may go on. Thread-safe.
  [[nodiscard]] std::optional<Status> stopped() const;

  /// Does the next step, if that is possible without waiting. Call it only after `ask`.
  void go_on(TimePoint now);
  /// Whether this rank has told rank 0 that it has left. Later tensors are not negotiated: they stay in the
  /// TensorTable until the job ends, and get the status of that end.
  [[nodiscard]] bool has_left() const { return left_; }

 private:
  Messages& messages_;
  Tracing& tracing_;
  Negotiator& negotiator_;
  mutable std::mutex mutex_;
  bool asked_ = false;             // under the mutex
  std::optional<Status> stopped_;  // likewise
  bool began_ = false;
  bool left_ = false;
};

}  // namespace hora
