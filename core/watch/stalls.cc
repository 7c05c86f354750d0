// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include "core/negotiate/hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::chrono::seconds kToAnswer{1};
constexpr std::size_t kMostDescribed = 8;  // of the missing ranks; the others are only named

double in_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// Whether one warning tells of both.
bool told_together(const Wait& one, const Wait& other) {
  return one.kind == other.kind && one.on.missing == other.on.missing && one.on.ranks == other.on.ranks &&
         (one.kind == WaitKind::tensor || one.on.asked == other.on.asked);
}

bool all_wait_for_tensors(const std::vector<int>& ranks, const std::vector<Wait>& all) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::any_of(all.begin(), all.end(), [&](const Wait& wait) {
      return wait.kind == WaitKind::tensor &&
             std::binary_search(wait.on.asked.begin(), wait.on.asked.end(), rank);
    });
  });
}

/// Tensors are known by their names: the cause of several waits is one. Messages have none.
bool is_another(const Wait& told, const Wait& wait) {
  return wait.kind != WaitKind::tensor || told.on.name != wait.on.name;
}

}  // namespace

Stalls::Advice Stalls::look(const Negotiator& negotiator, TimePoint now) {
  Advice advice;
  const TimePoint oldest = waits_.oldest(negotiator);
  if (first().count() == 0 || oldest == TimePoint::max()) {
    inquiry_.reset();
    return advice;
  }
  if (inquiry_ && !inquiry_->open.empty() && now < inquiry_->until) {
    advice.next = inquiry_->until;
    return advice;
  }
  advice.next = oldest + first();
  if (now < advice.next) {
    inquiry_.reset();
    return advice;
  }
  const auto unfinished = waits_.all(negotiator);
  const auto all = overdue(unfinished, now, advice.next);
  advice.ask = ask_about(all, now);
  if (!advice.ask.empty()) {
    advice.next = inquiry_->until;
  } else if (inquiry_) {
    report(unfinished, all, now, advice);
    inquiry_.reset();
  }
  return advice;
}

/// The missing ranks that have not been asked yet; from now on they have. A rank that has not answered before
/// has had the time.
std::vector<int> Stalls::ask_about(const std::vector<Overdue>& all, TimePoint now) {
  std::set<int> fresh;
  for (const auto& each : all) {
    for (const int rank : each.wait.on.missing) {
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

void Stalls::tell_waits(int rank, const std::vector<MessageWait>& waits, TimePoint now) {
  waits_.tell_messages(rank, waits, now);
}

void Stalls::expect_delay(int rank, const Delay& delay, TimePoint now) {
  excuses_[rank] = {delay.name, delay.time, now + delay.time};
}

std::chrono::milliseconds Stalls::first() const {
  if (limits_.warning.count() == 0) return limits_.timeout;
  if (limits_.timeout.count() == 0) return limits_.warning;
  return std::min(limits_.warning, limits_.timeout);
}

/// Whether the job ends for this. Ranks that wait in shutdown only wait: the others may have work to do.
bool Stalls::fails(const Wait& wait, TimePoint since, TimePoint now) const {
  return wait.kind != WaitKind::shutdown && limits_.timeout.count() != 0 && now >= since + limits_.timeout;
}

/// The time when there will be something to say again of a wait: ranks have missed it from `since` on, and
/// the last warning was at `warned`.
TimePoint Stalls::next_look(const Wait& wait, TimePoint since, TimePoint warned) const {
  TimePoint next = TimePoint::max();
  if (limits_.warning.count() != 0) next = std::max(since, warned) + limits_.warning;
  if (limits_.timeout.count() != 0 && wait.kind != WaitKind::shutdown)
    next = std::min(next, since + limits_.timeout);
  return next;
}

/// The waits about which there is something to say now; else `next` is when there will be, as things are.
std::vector<Stalls::Overdue> Stalls::overdue(const std::vector<Wait>& unfinished, TimePoint now,
                                             TimePoint& next) const {
  std::vector<Overdue> all;
  next = TimePoint::max();
  std::vector<Wait> without_excuse;
  std::copy_if(unfinished.begin(), unfinished.end(), std::back_inserter(without_excuse),
               [&](const Wait& wait) { return since(wait.on) <= now; });
  for (const auto& wait : unfinished) {
    const TimePoint since = this->since(wait.on);
    const TimePoint due = next_look(wait, since, warned_);
    if (now < due) {
      next = std::min(next, due);
      continue;
    }
    const Wait& cause = cause_of(wait, without_excuse);
    const auto alike = std::find_if(all.begin(), all.end(),
                                    [&](const Overdue& other) { return told_together(other.wait, cause); });
    if (alike == all.end()) {
      all.push_back({cause, since});
    } else if (cause.on.name == wait.on.name && is_another(alike->wait, wait)) {
      ++alike->more;
    }
  }
  return all;
}

/// The time since which the first of the missing ranks has no excuse.
TimePoint Stalls::since(const WaitingTensor& waiting) const {
  TimePoint first = TimePoint::max();
  for (const int rank : waiting.missing) {
    const auto excuse = excuses_.find(rank);
    first = std::min(
        first, excuse == excuses_.end() ? waiting.since : std::max(waiting.since, excuse->second.until));
  }
  return first;
}

void Stalls::report(const std::vector<Wait>& unfinished, const std::vector<Overdue>& all, TimePoint now,
                    Advice& advice) {
  if (all.empty()) return;
  std::map<std::string, std::string> told;
  for (const auto& each : all) {
    const Wait& wait = each.wait;
    const bool fails = this->fails(wait, each.since, now);
    if (fails && !advice.verdict) {
      advice.verdict =
          Status{Code::timeout, fmt::format("{}\nThe job ends: HORA_MISSING_TIMEOUT is {:g} s",
                                            describe(unfinished, each, now), in_seconds(limits_.timeout))};
    } else if (!fails) {
      const std::string key = describe_ranks(wait.on.asked) + " " + wait.on.name;
      const std::string seen = told[key] = signature(unfinished, wait.on.missing);
      const auto before = told_.find(key);
      const bool known = before != told_.end() && before->second == seen;
      advice.warnings.push_back(known ? describe_again(each, now) : describe(unfinished, each, now));
      if (wait.kind == WaitKind::shutdown) {
        waits_.leave_out_shutdown();
      } else {
        advice.next = std::min(advice.next, next_look(wait, each.since, now));
      }
    }
  }
  warned_ = now;
  told_ = std::move(told);
}

/// Nothing but the time has changed.
std::string Stalls::describe_again(const Overdue& overdue, TimePoint now) {
  const auto& [wait, since, more] = overdue;
  return fmt::format("{}; still missing: {}", hora::describe(wait, more, now - wait.on.since),
                     describe_ranks(wait.on.missing));
}

std::string Stalls::describe(const std::vector<Wait>& unfinished, const Overdue& overdue,
                             TimePoint now) const {
  const auto& [wait, since, more] = overdue;
  const auto& missing = wait.on.missing;
  std::string text = hora::describe(wait, more, now - wait.on.since) + describe_asked(wait) + "; missing:";
  std::vector<int> rest;
  const auto groups = alike(unfinished, missing);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i < kMostDescribed) {
      text += describe_missing(unfinished, groups[i]);
    } else {
      rest.insert(rest.end(), groups[i].begin(), groups[i].end());
    }
  }
  std::sort(rest.begin(), rest.end());
  if (!rest.empty()) text += fmt::format("\n  and {}", describe_ranks(rest));
  const bool went_on = wait.kind == WaitKind::tensor && all_wait_for_tensors(missing, unfinished);
  if (went_on) text += "\n" + hint_for_waiting({wait.on.name, wait.on.step, wait.on.asked, missing});
  return text;
}

/// The state of a missing rank, but for times. Without an account of a rank, its state is other than that of
/// each other rank.
std::string Stalls::state_of(const std::vector<Wait>& unfinished, int rank) const {
  std::string text = waits_for(unfinished, rank);
  if (const auto excuse = excuses_.find(rank); excuse != excuses_.end())
    text += fmt::format("\n{} {}", excuse->second.name, excuse->second.time.count());
  const auto account = inquiry_->accounts.find(rank);
  return account == inquiry_->accounts.end()
             ? fmt::format("{}\n{}", text, rank)
             : fmt::format("{}\n{}\n{}", text, account->second.last, account->second.stack);
}

std::string Stalls::signature(const std::vector<Wait>& unfinished, const std::vector<int>& missing) const {
  std::string text;
  for (const int rank : missing) text += fmt::format("{}: {}\n", rank, state_of(unfinished, rank));
  return text;
}

/// The missing ranks in groups: the same is to be said of all ranks of a group.
std::vector<std::vector<int>> Stalls::alike(const std::vector<Wait>& unfinished,
                                            const std::vector<int>& missing) const {
  std::vector<std::vector<int>> groups;
  std::map<std::string, std::size_t> group_of;
  for (const int rank : missing) {
    const auto [entry, fresh] = group_of.try_emplace(state_of(unfinished, rank), groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(rank);
  }
  return groups;
}

/// A paragraph: the names of the ranks, what the first one said of itself, and what it does.
std::string Stalls::describe_missing(const std::vector<Wait>& unfinished,
                                     const std::vector<int>& ranks) const {
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
  if (const auto own = waits_for(unfinished, rank); !own.empty())
    text +=
        fmt::format("{}It waits itself, {}", text.find('\n', 1) == std::string::npos ? ". " : "\n    ", own);
  return text;
}

}  // namespace hora
