// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::chrono::seconds kToAnswer{1};
constexpr std::size_t kMostDescribed = 8;  // of those who are missing; the others are only named

double in_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// What a rank waits for itself, the oldest first; empty if for nothing.
std::string waits_for(const Negotiator& negotiator, int rank) {
  for (const auto& waiting : negotiator.waiting(TimePoint::max())) {
    if (std::find(waiting.asked.begin(), waiting.asked.end(), rank) != waiting.asked.end())
      return waiting.name;
  }
  return {};
}

}  // namespace

Stalls::Advice Stalls::look(const Negotiator& negotiator, TimePoint now) {
  Advice advice;
  const TimePoint oldest = negotiator.oldest();  // once: another rank may answer at any time
  if (first().count() == 0 || oldest == TimePoint::max()) {
    inquiry_.reset();
    return advice;
  }
  if (inquiry_ && !inquiry_->open.empty() && now < inquiry_->until) {
    advice.next = inquiry_->until;
    return advice;
  }
  advice.next = oldest + first();
  const auto all = now < advice.next ? std::vector<Overdue>() : overdue(negotiator, now, advice.next);
  if (inquiry_) {
    report(negotiator, all, now, advice);
    inquiry_.reset();
    return advice;
  }
  if (all.empty()) return advice;
  inquiry_ = Inquiry{{}, now + kToAnswer, {}};
  for (const auto& each : all)
    inquiry_->open.insert(each.waiting.missing.begin(), each.waiting.missing.end());
  advice.ask.assign(inquiry_->open.begin(), inquiry_->open.end());
  advice.next = inquiry_->until;
  return advice;
}

void Stalls::tell(int rank, Account account) {
  if (!inquiry_ || inquiry_->open.erase(rank) == 0) return;  // it answers too late
  inquiry_->accounts.emplace(rank, std::move(account));
}

void Stalls::expect_delay(int rank, const Delay& delay, TimePoint now) {
  excuses_[rank] = {delay.name, delay.time, now + delay.time};
}

/// The first time at which there may be something to say.
std::chrono::milliseconds Stalls::first() const {
  if (patience_.warning.count() == 0) return patience_.timeout;
  if (patience_.timeout.count() == 0) return patience_.warning;
  return std::min(patience_.warning, patience_.timeout);
}

bool Stalls::fails(TimePoint since, TimePoint now) const {
  return patience_.timeout.count() != 0 && now >= since + patience_.timeout;
}

/// When there will be something to say again of what some have missed since then, and was warned of last.
TimePoint Stalls::next_look(TimePoint since, TimePoint warned) const {
  TimePoint next = TimePoint::max();
  if (patience_.warning.count() != 0) next = std::max(since, warned) + patience_.warning;
  if (patience_.timeout.count() != 0) next = std::min(next, since + patience_.timeout);
  return next;
}

/// What there is something to say about now; else `next` is when there will be, as things are.
std::vector<Stalls::Overdue> Stalls::overdue(const Negotiator& negotiator, TimePoint now,
                                             TimePoint& next) const {
  std::vector<Overdue> all;
  next = TimePoint::max();
  for (auto& waiting : negotiator.waiting(TimePoint::max())) {  // the oldest first
    const TimePoint since = this->since(waiting);
    const TimePoint due = next_look(since, warned_);
    if (now >= due) {
      const auto alike = std::find_if(all.begin(), all.end(), [&](const Overdue& other) {
        return other.waiting.missing == waiting.missing && other.waiting.ranks == waiting.ranks;
      });
      if (alike == all.end()) {
        all.push_back({std::move(waiting), since});
      } else {
        ++alike->more;
      }
    } else {
      next = std::min(next, due);
    }
  }
  return all;
}

/// Since when the first of those who are missing has no excuse.
TimePoint Stalls::since(const Coordinator::Waiting& waiting) const {
  TimePoint first = TimePoint::max();
  for (const int rank : waiting.missing) {
    const auto excuse = excuses_.find(rank);
    first = std::min(
        first, excuse == excuses_.end() ? waiting.since : std::max(waiting.since, excuse->second.until));
  }
  return first;
}

void Stalls::report(const Negotiator& negotiator, const std::vector<Overdue>& all, TimePoint now,
                    Advice& advice) {
  if (all.empty()) return;
  for (const auto& each : all) {
    const bool fails = this->fails(each.since, now);
    if (fails && !advice.verdict) {
      advice.verdict =
          Status{Code::timeout, fmt::format("{}\nThe job ends: HORA_MISSING_TIMEOUT is {:g} s",
                                            describe(negotiator, each, now), in_seconds(patience_.timeout))};
    } else if (!fails) {
      advice.warnings.push_back(describe(negotiator, each, now));
      advice.next = std::min(advice.next, next_look(each.since, now));
    }
  }
  warned_ = now;
}

std::string Stalls::describe(const Negotiator& negotiator, const Overdue& overdue, TimePoint now) const {
  const Coordinator::Waiting& waiting = overdue.waiting;
  std::string text = fmt::format("'{}' ({}", waiting.name, waiting.what);
  if (waiting.step != 0) text += fmt::format(", step {}", waiting.step);
  text += ")";
  if (overdue.more != 0) text += fmt::format(" and {} more", overdue.more);
  if (!waiting.ranks.empty()) text += fmt::format(" in the process set of {}", waiting.ranks);
  text +=
      fmt::format(" has been waited for {:.0f} s: {} asked for it; missing:", in_seconds(now - waiting.since),
                  describe_ranks(waiting.asked));
  const auto& missing = waiting.missing;
  const auto rest = missing.begin() + static_cast<std::ptrdiff_t>(std::min(kMostDescribed, missing.size()));
  for (auto rank = missing.begin(); rank != rest; ++rank) text += describe_missing(negotiator, *rank);
  if (rest != missing.end()) text += fmt::format("\n  and {}", describe_ranks({rest, missing.end()}));
  return text;
}

/// A paragraph: who it is, what it said of itself, and what it does.
std::string Stalls::describe_missing(const Negotiator& negotiator, int rank) const {
  std::string text = fmt::format("\n  {}", hora::describe(members_[static_cast<std::size_t>(rank)]));
  const auto excuse = excuses_.find(rank);
  if (excuse != excuses_.end() && excuse->second.time.count() != 0) {
    text += fmt::format(", which expected to be busy with '{}' for {:g} s", excuse->second.name,
                        in_seconds(excuse->second.time));
  }
  const auto account = inquiry_->accounts.find(rank);
  if (account == inquiry_->accounts.end()) {
    text +=
        ". It lives, but its engine does not answer: it is in an operation of another process set, or of a "
        "GPU";
  } else {
    text += fmt::format(". It lives; {}", hora::describe(account->second));
  }
  if (const auto own = waits_for(negotiator, rank); !own.empty())
    text += fmt::format("\n    It waits itself, for '{}', which others have not submitted", own);
  return text;
}

}  // namespace hora
