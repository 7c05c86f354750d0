// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tracing.h"

namespace hora {

void Tracing::announce() {
  const auto command = timeline_.take_command();
  if (command != TraceCommand::none) negotiator_.command(command);
}

void Tracing::follow(TraceCommand command) {
  if (command == TraceCommand::none) return;
  if (command == TraceCommand::stop) return send(tracer_.stop(Clock::now()));
  tracer_.start(command == TraceCommand::start_with_cycles);
}

void Tracing::send_some() {
  if (!tracer_.on()) return;
  if (auto part = tracer_.take(Clock::now())) send(*std::move(part));
}

void Tracing::stop() {
  if (tracer_.on()) send(tracer_.stop(Clock::now()));
}

void Tracing::send(TracePart part) {
  if (rank_ == 0) {
    take(0, std::move(part));
  } else {
    negotiator_.report(Report::trace, encode(part));
  }
}

}  // namespace hora
