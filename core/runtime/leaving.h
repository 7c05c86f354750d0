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

/// How this rank leaves the job: a thread asks for it, and the engine does it step by step. First the
/// messages that it has sent arrive; then rank 0 hears that it has left. Refers to its constructor's
/// arguments, which must outlive it. *Engine only*, except `ask` and `asked`.
class Leaving {
 public:
  Leaving(Messages& messages, Tracing& tracing, Negotiator& negotiator)
      : messages_(messages), tracing_(tracing), negotiator_(negotiator) {}

  /// Asks for it; `reason`: why the job fails, or empty. False: another call came first, and counts.
  /// Thread-safe.
  bool ask(const std::string& reason);
  /// The reason that was given; nothing: no thread has asked. Thread-safe.
  [[nodiscard]] std::optional<std::string> asked() const;

  /// Does the next step, if it can be done.
  void go_on(TimePoint now);
  /// Whether rank 0 has been told: tensors that are submitted from now on wait for the end, and get its
  /// status.
  [[nodiscard]] bool has_left() const { return left_; }

 private:
  Messages& messages_;
  Tracing& tracing_;
  Negotiator& negotiator_;
  mutable std::mutex mutex_;
  std::optional<std::string> asked_;  // under the mutex
  bool began_ = false;
  bool left_ = false;
};

}  // namespace hora
