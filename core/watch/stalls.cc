// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include "core/negotiate/hint.h"

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

/// Whether each side waits for what the other one has not submitted: that is one mistake.
bool wait_for_each_other(const Coordinator::Waiting& one, const Coordinator::Waiting& other) {
  const auto has = [](const std::vector<int>& ranks, const std::vector<int>& part) {
    return std::includes(ranks.begin(), ranks.end(), part.begin(), part.end());
  };
  return has(other.asked, one.missing) && has(one.asked, other.missing);
}

/// Where both sides wait for each other: how probably the mistake is with this tensor, and not with `other`;
/// 0 is the most probable. A call by rank 0 alone that no other rank ever made is likely under an `if`; else
/// a backward() is likely to be left out.
int improbability(const Coordinator::Waiting& tensor, const Coordinator::Waiting& other) {
  const bool first_time = tensor.step == 0 && !is_gradient(tensor.name);
  if (first_time && (other.step != 0 || tensor.asked == std::vector<int>{0})) return 0;
  return is_gradient(tensor.name) ? 1 : 2;
}

/// What lies behind the wait for a tensor: that tensor, or the one for which the missing ranks wait.
const Coordinator::Waiting& cause_of(const Coordinator::Waiting& tensor,
                                     const std::vector<Coordinator::Waiting>& all) {
  const Coordinator::Waiting* cause = &tensor;
  for (const auto& other : all) {
    if (!wait_for_each_other(other, *cause)) continue;
    const auto own = std::pair(improbability(*cause, other), cause->asked.front());
    if (std::pair(improbability(other, *cause), other.asked.front()) < own) cause = &other;
  }
  return *cause;
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
  advice.ask = ask_about(all, now);
  if (!advice.ask.empty()) {
    advice.next = inquiry_->until;
  } else if (inquiry_) {
    report(negotiator, all, now, advice);
    inquiry_.reset();
  }
  return advice;
}

/// Those who are missing and have not been asked yet; from now on they have. Whoever has not answered before
/// has had the time.
std::vector<int> Stalls::ask_about(const std::vector<Overdue>& all, TimePoint now) {
  std::set<int> fresh;
  for (const auto& each : all) {
    for (const int rank : each.waiting.missing) {
      if (!inquiry_ || !inquiry_->asked.contains(rank)) fresh.insert(rank);
    }
  }
  if (fresh.empty()) return {};
  if (!inquiry_) inquiry_.emplace();
  inquiry_->asked.insert(fresh.begin(), fresh.end());
  inquiry_->open = fresh;
  inquiry_->until = now + kToAnswer;
  return {fresh.begin(), fresh.end()};
}

void Stalls::tell(int rank, Account account) {
  if (!inquiry_ || !inquiry_->asked.contains(rank)) return;  // it answers too late
  inquiry_->open.erase(rank);
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
  const auto unfinished = negotiator.waiting(TimePoint::max());
  std::vector<Coordinator::Waiting> without_excuse;
  std::copy_if(unfinished.begin(), unfinished.end(), std::back_inserter(without_excuse),
               [&](const Coordinator::Waiting& waiting) { return this->since(waiting) <= now; });
  for (const auto& waiting : unfinished) {  // the oldest first
    const TimePoint since = this->since(waiting);
    const TimePoint due = next_look(since, warned_);
    if (now >= due) {
      const auto& cause = cause_of(waiting, without_excuse);
      const auto alike = std::find_if(all.begin(), all.end(), [&](const Overdue& other) {
        return other.waiting.missing == cause.missing && other.waiting.ranks == cause.ranks;
      });
      if (alike == all.end()) {
        all.push_back({cause, since});
      } else if (cause.name == waiting.name && alike->waiting.name != waiting.name) {
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
  std::map<std::string, std::string> told;
  for (const auto& each : all) {
    const bool fails = this->fails(each.since, now);
    if (fails && !advice.verdict) {
      advice.verdict =
          Status{Code::timeout, fmt::format("{}\nThe job ends: HORA_MISSING_TIMEOUT is {:g} s",
                                            describe(negotiator, each, now), in_seconds(patience_.timeout))};
    } else if (!fails) {
      const std::string seen = told[each.waiting.name] = signature(negotiator, each.waiting.missing);
      const auto before = told_.find(each.waiting.name);
      const bool known = before != told_.end() && before->second == seen;
      advice.warnings.push_back(known ? describe_again(each, now) : describe(negotiator, each, now));
      advice.next = std::min(advice.next, next_look(each.since, now));
    }
  }
  warned_ = now;
  told_ = std::move(told);
}

std::string Stalls::describe_tensor(const Overdue& overdue) {
  const Coordinator::Waiting& waiting = overdue.waiting;
  std::string text = fmt::format("'{}' ({}", waiting.name, waiting.what);
  if (waiting.step != 0) text += fmt::format(", step {}", waiting.step);
  text += ")";
  if (overdue.more != 0) text += fmt::format(" and {} more", overdue.more);
  if (!waiting.ranks.empty()) text += fmt::format(" in the process set of {}", waiting.ranks);
  return text;
}

/// Nothing but the time has changed.
std::string Stalls::describe_again(const Overdue& overdue, TimePoint now) {
  return fmt::format("{} has been waited for {:.0f} s; still missing: {}", describe_tensor(overdue),
                     in_seconds(now - overdue.waiting.since), describe_ranks(overdue.waiting.missing));
}

std::string Stalls::describe(const Negotiator& negotiator, const Overdue& overdue, TimePoint now) const {
  const Coordinator::Waiting& waiting = overdue.waiting;
  std::string text =
      fmt::format("{} has been waited for {:.0f} s: {} asked for it; missing:", describe_tensor(overdue),
                  in_seconds(now - waiting.since), describe_ranks(waiting.asked));
  std::vector<int> rest;
  const auto groups = alike(negotiator, waiting.missing);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i < kMostDescribed) {
      text += describe_missing(negotiator, groups[i]);
    } else {
      rest.insert(rest.end(), groups[i].begin(), groups[i].end());
    }
  }
  std::sort(rest.begin(), rest.end());
  if (!rest.empty()) text += fmt::format("\n  and {}", describe_ranks(rest));
  const bool went_on = std::all_of(waiting.missing.begin(), waiting.missing.end(),
                                   [&](int rank) { return !waits_for(negotiator, rank).empty(); });
  if (went_on) text += "\n" + hint_for_waiting({waiting.name, waiting.step, waiting.asked, waiting.missing});
  return text;
}

/// What a missing rank does, but for times; what is not known of it is another state on each.
std::string Stalls::state_of(const Negotiator& negotiator, int rank) const {
  std::string text = waits_for(negotiator, rank);
  if (const auto excuse = excuses_.find(rank); excuse != excuses_.end())
    text += fmt::format("\n{} {}", excuse->second.name, excuse->second.time.count());
  const auto account = inquiry_->accounts.find(rank);
  return account == inquiry_->accounts.end()
             ? fmt::format("{}\n{}", text, rank)
             : fmt::format("{}\n{}\n{}", text, account->second.last, account->second.stack);
}

std::string Stalls::signature(const Negotiator& negotiator, const std::vector<int>& missing) const {
  std::string text;
  for (const int rank : missing) text += fmt::format("{}: {}\n", rank, state_of(negotiator, rank));
  return text;
}

/// Missing ranks of which the same is to be said, together.
std::vector<std::vector<int>> Stalls::alike(const Negotiator& negotiator,
                                            const std::vector<int>& missing) const {
  std::vector<std::vector<int>> groups;
  std::map<std::string, std::size_t> group_of;
  for (const int rank : missing) {
    const auto [entry, fresh] = group_of.try_emplace(state_of(negotiator, rank), groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(rank);
  }
  return groups;
}

/// A paragraph: who they are, what the first said of itself, and what it does.
std::string Stalls::describe_missing(const Negotiator& negotiator, const std::vector<int>& ranks) const {
  const int rank = ranks.front();
  std::string text = "\n  ";
  if (ranks.size() > 1) text += fmt::format("{}, all in the same place: ", describe_ranks(ranks));
  text += hora::describe(members_[static_cast<std::size_t>(rank)]);
  const auto excuse = excuses_.find(rank);
  if (excuse != excuses_.end() && excuse->second.time.count() != 0) {
    text += fmt::format(", which expected to be busy with '{}' for {:g} s", excuse->second.name,
                        in_seconds(excuse->second.time));
  }
  const auto account = inquiry_->accounts.find(rank);
  if (account == inquiry_->accounts.end()) {
    text += fmt::format(
        ". It lives, but its engine has not said within {} s what it does: it is busy with an operation, or "
        "gets no processor",
        kToAnswer.count());
  } else {
    text += fmt::format(". It lives; {}", hora::describe(account->second));
  }
  if (const auto own = waits_for(negotiator, rank); !own.empty())
    text += fmt::format("{}It waits itself, for '{}', which others have not submitted",
                        text.find('\n', 1) == std::string::npos ? ". " : "\n    ", own);
  return text;
}

}  // namespace hora
