// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/negotiator.h"
#include "core/runtime/timeline.h"
#include "core/watch/tracer.h"

namespace hora {

/// This rank's part of the timeline: follows rank 0's commands, and sends what the tracer has collected to
/// rank 0, which adds it to the file. Refers to its constructor's arguments, which must outlive it. *Engine
/// only*, but `tracer`'s own functions.
class Tracing {
 public:
  Tracing(Timeline& timeline, Negotiator& negotiator, int rank)
      : timeline_(timeline), negotiator_(negotiator), rank_(rank) {}

  /// The tracer that operations report to.
  [[nodiscard]] Tracer& tracer() { return tracer_; }

  /// Rank 0: announces what a user has wished for since the last call.
  void announce();
  /// Begins or ends to trace, as rank 0 says.
  void follow(TraceCommand command);
  /// Sends the events so far, if they are many or old.
  void send_some();
  /// Ends to trace, if it does, and sends the rest.
  void stop();
  /// Rank 0: a part of another rank's.
  void take(int rank, TracePart part) { timeline_.add(rank, std::move(part)); }
  /// The job has ended: there will be no more.
  void finish() { timeline_.finish(); }

 private:
  void send(TracePart part);

  Timeline& timeline_;
  Negotiator& negotiator_;
  int rank_;
  Tracer tracer_;
};

}  // namespace hora
