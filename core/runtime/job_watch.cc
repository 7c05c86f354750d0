// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job_watch.h"

#include "core/base/log.h"
#include "core/launcher/end_report.h"
#include "core/launcher/question.h"

namespace hora {

JobWatch::JobWatch(World& world, const Config& config, Negotiator& negotiator, const RankState& own)
    : world_(world),
      config_(config),
      negotiator_(negotiator),
      own_(own),
      stalls_({config.missing_warning, config.missing_timeout}, world.members),
      stragglers_(config.straggler_steps, world.members),
      lateness_(world.control->rank() == 0 ? world.control->size() : 0) {}

void JobWatch::take(const ReceivedReport& told, TimePoint now) {
  switch (told.kind) {
    case Report::account: return stalls_.tell(told.rank, decode_account(told.content));
    case Report::delay: return stalls_.expect_delay(told.rank, decode_delay(told.content), now);
    case Report::waits:
      return stalls_.tell_waits(told.rank, decode_waits(told.content, world_.control->size()), now);
    case Report::trace:
    case Report::none: return;  // nothing to watch
  }
}

TimePoint JobWatch::look(TimePoint now) {
  const auto advice = stalls_.look(negotiator_, now);
  for (const auto& warning : advice.warnings) log(LogLevel::warning, warning);
  if (advice.verdict) world_.control->call_off(*advice.verdict);  // which this rank hears, too
  TimePoint next = advice.next;
  for (const int rank : advice.ask) {
    if (rank == world_.control->rank()) {
      stalls_.tell(rank, own_.account());
      next = now;
    } else {
      negotiator_.inquire(rank);
    }
  }
  return next;
}

void JobWatch::end_step(const TrainingStep& step, TimePoint now) {
  lateness_.add(step, now);
  if (const auto warning = stragglers_.add(step, now)) log(LogLevel::warning, *warning);
}

void JobWatch::answer(TimePoint now) {
  if (question_.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t question = question_.exchange(0);
  if (question != 0 && config_.question_fd)
    say(*config_.question_fd, encode(Reply{question, ReplyKind::job, encode(health(now))}));
}

void JobWatch::tell_of_missed() {
  for (const int rank : negotiator_.take_missed()) {
    if (config_.question_fd) say(*config_.question_fd, encode(missed_rank(rank)));
  }
}

JobHealth JobWatch::health(TimePoint now) const {
  JobHealth health;
  health.steps = lateness_.steps();
  if (health.steps > 0) {
    health.steps_per_second = lateness_.rate();
    health.since_step = in_milliseconds(now - lateness_.ended());
    for (int rank = 0; rank < world_.control->size() && health.lateness.size() < kMostLate; ++rank) {
      const auto [median, p99, last] = lateness_.of(rank);
      health.lateness.push_back({rank, median, p99, last});
    }
  }
  const auto waiting = negotiator_.waiting(TimePoint::max());
  health.waiting = waiting.size();
  for (const auto& each : waiting) {
    if (health.longest.size() == kMostTold) break;
    health.longest.push_back({{each.name, each.what, in_milliseconds(now - each.since)},
                              each.step,
                              each.missing,
                              each.missing.size()});
  }
  return health;
}

}  // namespace hora
