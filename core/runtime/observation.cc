// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/observation.h"

#include "core/base/log.h"

#include <utility>

namespace hora {

Observation::Observation(World& world, const Config& config, const TensorTable& table, Timeline& timeline,
                         Delays& delays, Messages& messages, Negotiator& negotiator, WakeUp& wake_up)
    : world_(world),
      delays_(delays),
      messages_(messages),
      negotiator_(negotiator),
      wake_up_(wake_up),
      recorder_(config.recorded_operations),
      tracing_(timeline, negotiator, world.control->rank()),
      state_(world, config, table, messages, recorder_),
      job_(world, config, negotiator, state_) {
  delays_.on_change([this] { wake_up_.ring(); });
  messages_.watch(job_.first_limit(), [this] { wake_up_.ring(); });
}

Observation::~Observation() {
  messages_.watch({}, {});
  delays_.on_change({});
}

void Observation::inquire(std::uint64_t question) {
  job_.inquire(question);
  wake_up_.ring();
}

TimePoint Observation::tell(TimePoint now) {
  tracing_.announce();
  if (const auto delay = delays_.take_change(now)) negotiator_.report(Report::delay, encode(*delay));
  job_.answer(now);
  if (now >= messages_.due()) {
    if (const auto late = messages_.take_late(now)) negotiator_.report(Report::waits, encode(*late));
  }
  return messages_.due();
}

TimePoint Observation::hear(TimePoint now) {
  job_.tell_of_missed();
  for (const auto& told : negotiator_.take_reports()) {
    if (told.kind == Report::trace) {
      tracing_.take(told.rank, decode_trace(told.content));
    } else {
      job_.take(told, now);
    }
  }
  return world_.control->rank() == 0 ? job_.look(now) : TimePoint::max();
}

void Observation::end_turn() {
  if (const auto divergence = negotiator_.take_divergence(); !divergence.empty())
    log(LogLevel::info, divergence);
  tracing_.send_some();
}

void Observation::tell_of_failure(const Status& why, const std::vector<Loan>& pending) const {
  if (why.code == Code::generation_ended) return log(LogLevel::info, why.message);  // the job goes on
  std::vector<Record> waiting;
  waiting.reserve(pending.size());
  for (const auto& loan : pending) waiting.push_back(to_record(loan, loan.entry->name, loan.group));
  state_.tell_of_failure(why, std::move(waiting));
}

void Observation::finish(bool failed) {
  if (failed && world_.control->rank() == 0) tracing_.stop();
  tracing_.finish();
}

}  // namespace hora
