// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/locked_order.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {
namespace {

// A rank that has waited in a lock for such a time ends the lock.
constexpr std::chrono::milliseconds kPressing{20};    // a user waits; another tensor is next in the order
constexpr std::chrono::milliseconds kOutOfOrder{80};  // the same, but no user is known to wait
constexpr std::chrono::milliseconds kLate{250};       // other ranks are late
// If a lock ends after such a wait, it was worth its cost only if it held for at least this time.
constexpr std::chrono::seconds kPays{10};

}  // namespace

void LockedOrder::begin(const Verdict& verdict, bool leaves) {
  if (vote_ == nullptr || verdict.group != kWorld || lockstep_)
    throw Error(Code::internal, "bad verdict: a lock out of place");
  lockstep_.emplace(verdict.lock, verdict.made);
  locked_since_ = {};
  end_ = Lockstep::End::no;
  quiet_since_ = {};
  if (leaves) return end({});
  const auto asked = voter_.under_way();
  if (!asked) return end({});
  for (const auto id : *asked) {
    if (!lockstep_->ask(id)) end({});
  }
}

void LockedOrder::ask(const std::vector<Request>& requests) {
  for (const auto& request : requests) {
    const auto id = voter_.note(request);
    if (id && lockstep_->ask(*id)) continue;
    end(fmt::format("it has submitted '{}' ({}), which no step did before", request.name, describe(request)));
  }
}

void LockedOrder::end(std::string why, Lockstep::End end) {
  if (!lockstep_ || end_ != Lockstep::End::no) return;
  end_ = end;
  if (why.empty()) return;
  divergence_ = fmt::format("the steps were alike until rank {} differed at '{}': {}", rank_,
                            voter_.name_in(lockstep_->next()), why);
}

std::optional<LockedOrder::Decided> LockedOrder::step(TimePoint now, bool pressing) {
  if (auto decided = answer(now)) return decided;
  if (lockstep_ && ends_a_long_wait(now, pressing)) return answer(now);
  return std::nullopt;
}

bool LockedOrder::wants_to_answer() const {
  return lockstep_->ready() > 0 || end_ != Lockstep::End::no || vote_->is_urged();
}

bool LockedOrder::has_more() const { return !vote_->has_answered() && wants_to_answer(); }

std::optional<LockedOrder::Decided> LockedOrder::answer(TimePoint now) {
  while (lockstep_) {
    if (!vote_->has_answered()) {
      if (!wants_to_answer()) return std::nullopt;
      vote_->answer(lockstep_->word(end_), now);
      answered_ = now;
    }
    if (!vote_->is_complete()) {
      if (end_ != Lockstep::End::no) vote_->urge();
      return std::nullopt;
    }
    quiet_since_ = {};
    if (auto decided = conclude(now)) return decided;
  }
  return std::nullopt;
}

/// Returns the decisions of a complete round; nothing if there are none, or if the lock ends.
std::optional<LockedOrder::Decided> LockedOrder::conclude(TimePoint now) {
  const auto& answers = vote_->conclude();
  const std::uint64_t own = lockstep_->word(Lockstep::End::no);
  if (locked_since_ == TimePoint{}) locked_since_ = now;
  std::size_t count = lockstep_->ready();
  Clock::rep first = answers.front().when;
  auto end = Lockstep::End::no;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    const auto& [word, when] = answers[rank];
    if (Lockstep::place_in(word) != Lockstep::place_in(own)) {
      throw Error(
          Code::internal,
          fmt::format("rank {} and rank {} are not at the same place of their schedule", rank_, rank));
    }
    end = std::max(end, Lockstep::end_in(word));
    count = std::min(count, Lockstep::ready_in(word));
    first = std::min(first, when);
  }
  if (end != Lockstep::End::no) {
    const bool dear = end == Lockstep::End::after_waiting && now - locked_since_ < kPays;
    ended_ = {lockstep_->decided(), dear};
    lockstep_.reset();
    return std::nullopt;
  }
  if (count == 0) return std::nullopt;
  Decided decided{lockstep_->decide(count), {}};
  if (rank_ == 0) {
    for (const auto& answer : answers) decided.behind.emplace_back(answer.when - first);
  }
  return decided;
}

std::chrono::milliseconds LockedOrder::longest_wait(bool pressing) const {
  if (vote_->has_answered()) return kLate;
  return pressing ? kPressing : kOutOfOrder;
}

TimePoint LockedOrder::wait_ends_at(TimePoint now, bool pressing) {
  if (lockstep_->waiting() == 0 || end_ != Lockstep::End::no) {
    quiet_since_ = {};
    return TimePoint::max();
  }
  if (quiet_since_ == TimePoint{}) quiet_since_ = now;
  return quiet_since_ + longest_wait(pressing);
}

/// Ends the lock if this rank has waited for too long, and returns whether it did. An answer that this rank
/// has given in this round is not changed.
bool LockedOrder::ends_a_long_wait(TimePoint now, bool pressing) {
  if (quiet_since_ == TimePoint{} || lockstep_->waiting() == 0 || end_ != Lockstep::End::no ||
      now < quiet_since_ + longest_wait(pressing))
    return false;
  const auto waited = in_milliseconds(now - quiet_since_).count();
  end(vote_->has_answered()
          ? fmt::format("it has not been submitted by {} for {} ms", describe_ranks(ranks_that(false)),
                        waited)
          : fmt::format("it has submitted others of the step, and not that one for {} ms", waited),
      Lockstep::End::after_waiting);
  return true;
}

/// The ranks that have answered in this round, or those that have not.
std::vector<int> LockedOrder::ranks_that(bool have_answered) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < vote_->size(); ++rank) {
    if (vote_->has_answered(rank) == have_answered) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<WaitingTensor> LockedOrder::waiting() const {
  if (!lockstep_ || !vote_->has_answered() || !vote_->is_urged()) return std::nullopt;
  WaitingTensor waiting;
  waiting.missing = ranks_that(false);
  if (waiting.missing.empty()) return std::nullopt;
  waiting.name = voter_.name_in(lockstep_->next());
  waiting.what = describe(voter_.asked_in(lockstep_->next()));
  waiting.since = answered_;
  waiting.asked = ranks_that(true);
  return waiting;
}

}  // namespace hora
