// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/negotiator.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace hora {
namespace {

constexpr TimePoint kAtOnce = TimePoint::min();

// The times for which a rank stands still in a lock until it ends it. kPressing: somebody waits for a tensor,
// and another one would come first, which nobody is going to submit before. kOutOfOrder: the rank cannot know
// that. kLate: others are late.
constexpr std::chrono::milliseconds kPressing{20};
constexpr std::chrono::milliseconds kOutOfOrder{80};
constexpr std::chrono::milliseconds kLate{250};
constexpr std::chrono::seconds kPays{10};  // for a lock to last that ends after such a time

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Negotiator::Negotiator(Control& control, ReadinessVote* vote, std::size_t capacity)
    : control_(control), capacity_(capacity), vote_(vote) {
  add_group(kWorld, everybody(control.size()));
  const TreePosition& position = control.position();
  const bool star = control.rank() == 0 && static_cast<int>(position.children.size()) == control.size() - 1;
  if (!position.children.empty() && !star)
    branch_.emplace(RankSet(control.rank(), position.end), voters_.at(kWorld));
}

void Negotiator::add_group(int group, const std::vector<int>& members) {
  next_group_ = group + 1;
  if (std::binary_search(members.begin(), members.end(), control_.rank()))
    voters_.emplace(group, Voter(group, capacity_));
  if (control_.rank() == 0)
    coordinators_.emplace(
        group, GroupCoordinator{Coordinator(members, capacity_, group == kWorld && vote_ != nullptr),
                                RankSet(members).without(RankSet(0))});
}

void Negotiator::remove_group(int group) {
  voters_.erase(group);
  coordinators_.erase(group);
}

void Negotiator::ask(int group, const std::vector<Request>& requests, TimePoint now) {
  const auto voter = voters_.find(group);
  if (voter == voters_.end() || requests.empty()) return;
  if (lockstep_ && group == kWorld) return ask_in_lock(requests);
  if (lockstep_) end_lock_because(fmt::format("'{}' is of process set {}", requests.front().name, group));
  cast(voter->second.ask(requests), now);
}

void Negotiator::leave(TimePoint now) {
  leaves_ = true;
  if (lockstep_) return end_lock_because({});
  cast_leave(now);
}

void Negotiator::cast_leave(TimePoint now) {
  // The world's last: it ends the job.
  for (auto voter = voters_.rbegin(); voter != voters_.rend(); ++voter) {
    if (voter->first == kWorld || !left_others_) cast(voter->second.leave(), now);
  }
  left_others_ = true;
}

void Negotiator::command(TraceCommand command) {
  coordinators_.at(kWorld).coordinator.command(command);
  decide_soon();
}

void Negotiator::fuse_up_to(std::uint64_t bytes) {
  coordinators_.at(kWorld).coordinator.fuse_up_to(bytes);
  decide_soon();
}

/// Rank 0 has something to tell all.
void Negotiator::decide_soon() {
  coordinators_.at(kWorld).undecided = true;
  if (lockstep_) end_lock_because({});
}

void Negotiator::inquire(int rank) {
  Verdict inquiry;
  inquiry.inquiry = true;
  control_.announce(RankSet(rank), encode(inquiry));
}

void Negotiator::report(Report kind, Bytes content) {
  Ballot ballot;
  ballot.report = kind;
  ballot.content = std::move(content);
  cast(ballot, {});
}

std::vector<TrainingStep> Negotiator::take_steps() {
  std::vector<TrainingStep> steps;
  for (auto& [group, own] : coordinators_)
    steps = own.coordinator.take_steps();  // none keeps its own; the world is last
  return steps;
}

void Negotiator::cast(Ballot ballot, TimePoint now) {
  if (control_.rank() != 0 && !branch_) return control_.send(control_.position().parent, encode(ballot));
  ballot.ranks = RankSet(control_.rank());
  if (!branch_) return count(ballot, now);
  branch_->add(std::move(ballot), now);
  pass_on(now);
}

/// Takes the ballots of a child, for itself or for the ranks below it.
void Negotiator::take(const ControlMessage& message) {
  const TreePosition& position = control_.position();
  const int child = position.child(message.from);
  if (child < 0)
    throw Error(Code::internal, fmt::format("rank {} writes to rank {}", message.from, control_.rank()));
  const RankSet below = position.below(static_cast<std::size_t>(child));
  for (auto& ballot : decode_ballots(message.bytes, control_.size())) {
    if (ballot.ranks.empty()) ballot.ranks = RankSet(message.from);
    if (!ballot.ranks.without(below).empty()) {
      throw Error(Code::internal, fmt::format("bad ballot from rank {}: it speaks for {}", message.from,
                                              describe_ranks(ballot.ranks.list())));
    }
    if (branch_) {
      branch_->add(std::move(ballot), message.came);
    } else {
      count(ballot, message.came);
    }
  }
}

/// Passes on the ballots of this rank and the ranks below it, as far as they are put together: rank 0 counts
/// them.
void Negotiator::pass_on(TimePoint now) {
  if (!branch_) return;
  const auto ballots = branch_->take(now);
  if (control_.rank() != 0) {
    if (!ballots.empty()) control_.send(control_.position().parent, encode(ballots));
    return;
  }
  for (const auto& ballot : ballots) count(ballot, now);
}

void Negotiator::count(const Ballot& ballot, TimePoint now) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::internal,
                fmt::format("bad ballot from {}: {}", describe_ranks(ballot.ranks.list()), what));
  };
  if (ballot.report != Report::none) {
    reports_.push_back({ballot.ranks.front(), ballot.report, ballot.content});
    return;  // it travels alone, also after its sender has left
  }
  const auto own = coordinators_.find(ballot.group);
  if (own == coordinators_.end()) {
    if (ballot.group < next_group_) return;  // it was removed while the ballot was on its way
    refuse(fmt::format("there is no group {}", ballot.group));
  }
  RankSet places = ballot.ranks;
  if (ballot.group != kWorld) {
    const auto& members = own->second.coordinator.members();
    const auto place = std::lower_bound(members.begin(), members.end(), ballot.ranks.front());
    if (ballot.ranks.size() != 1 || place == members.end() || *place != ballot.ranks.front())
      refuse(fmt::format("it is not in group {}", ballot.group));
    places = RankSet(static_cast<int>(place - members.begin()));
  }
  own->second.coordinator.add(places, ballot, now);
  own->second.undecided = true;
  if (ballot.group == kWorld && ballot.leaving) note_left(ballot.ranks, now);
  if (ballot.group == kWorld) return;
  coordinators_.at(kWorld).coordinator.disturb();
  if (lockstep_) end_lock_because({});
}

/// The last ones end the job, of which there is nothing else to tell.
void Negotiator::note_left(const RankSet& ranks, TimePoint now) {
  leaving_.left.add(ranks);
  leaving_.since = std::min(leaving_.since, now);
  if (leaving_.left.size() == control_.size()) {
    leaving_ = {};
  } else {
    coordinators_.at(kWorld).coordinator.tell_left(ranks);
  }
}

std::vector<Negotiator::Heard> Negotiator::hear(TimePoint now, bool pressing) {
  std::vector<Heard> heard;
  next_look_ = TimePoint::max();
  had_verdict_ = false;
  if (control_.rank() != 0) {
    // One at a time: the next may be of a group that this one makes.
    if (auto verdict = next_verdict(now)) heard.push_back(*std::move(verdict));
  } else {
    collect();
    pass_on(now);
    if (!lockstep_)
      heard = decide();  // messages in a lock, such as from the rank that has ended it, can wait
  }
  if (branch_) next_look_ = branch_->next();
  if (lockstep_ && heard.empty()) {
    if (auto decided = step(now, pressing)) heard.push_back(*std::move(decided));
  }
  if (lockstep_) look_again(now, pressing);
  return heard;
}

/// Rank 0: decides all that has become decidable, in all groups.
std::vector<Negotiator::Heard> Negotiator::decide() {
  std::vector<Heard> heard;
  for (auto& [group, own] : coordinators_) {
    if (!std::exchange(own.undecided, false)) continue;
    auto verdict = own.coordinator.decide();
    if (!verdict) continue;
    const auto missed = own.coordinator.take_missed();
    missed_.insert(missed_.end(), missed.begin(), missed.end());
    verdict->group = group;
    control_.announce(own.others, encode(*verdict));
    if (voters_.contains(group)) heard.push_back(apply(*verdict));
  }
  return heard;
}

bool Negotiator::has_more() const {
  if (had_verdict_) return true;
  if (lockstep_)
    return !vote_->has_answered() &&
           (lockstep_->ready() > 0 || end_ != Lockstep::End::no || vote_->is_urged());
  return is_undecided();
}

/// Whether something has come since the last verdicts.
bool Negotiator::is_undecided() const {
  return std::any_of(coordinators_.begin(), coordinators_.end(),
                     [](const auto& own) { return own.second.undecided; });
}

/// Takes all messages that have come.
void Negotiator::collect() {
  while (auto event = control_.receive(kAtOnce)) take(expect_message(*std::move(event)));
}

/// Takes messages up to the next verdict.
std::optional<Negotiator::Heard> Negotiator::next_verdict(TimePoint now) {
  std::optional<ControlMessage> message;
  while (auto event = control_.receive(kAtOnce)) {
    message = expect_message(*std::move(event));
    if (message->from == 0) break;
    take(*std::exchange(message, std::nullopt));
  }
  pass_on(now);
  if (!message) return std::nullopt;
  had_verdict_ = true;
  return apply(decode_verdict(message->bytes, control_.size()));
}

Negotiator::Heard Negotiator::apply(const Verdict& verdict) {
  if (verdict.inquiry) return {kWorld, {}, false, TraceCommand::none, true, 0, {}};
  const auto voter = voters_.find(verdict.group);
  if (voter == voters_.end())
    throw Error(Code::internal, fmt::format("bad verdict: this rank is not in group {}", verdict.group));
  Heard heard{verdict.group,
              voter->second.apply(verdict),
              verdict.end && verdict.group == kWorld,
              verdict.trace,
              false,
              verdict.fuse_up_to,
              verdict.left};
  if (branch_) branch_->hear(verdict);
  if (!verdict.lock.empty()) lock(verdict);
  return heard;
}

// --- while the world's decisions are locked ---

void Negotiator::lock(const Verdict& verdict) {
  if (vote_ == nullptr || verdict.group != kWorld || lockstep_)
    throw Error(Code::internal, "bad verdict: a lock out of place");
  lockstep_.emplace(verdict.lock, verdict.made);
  locked_since_ = {};
  end_ = Lockstep::End::no;
  quiet_since_ = {};
  if (leaves_) return end_lock_because({});
  const auto asked = voters_.at(kWorld).under_way();
  if (!asked) return end_lock_because({});
  for (const auto id : *asked) {
    if (!lockstep_->ask(id)) end_lock_because({});
  }
}

void Negotiator::ask_in_lock(const std::vector<Request>& requests) {
  Voter& voter = voters_.at(kWorld);
  for (const auto& request : requests) {
    const auto id = voter.note(request);
    if (id && lockstep_->ask(*id)) continue;
    end_lock_because(
        fmt::format("it has submitted '{}' ({}), which no step did before", request.name, describe(request)));
  }
}

/// The first reason counts. Empty: nothing that anybody need be told.
void Negotiator::end_lock_because(std::string why, Lockstep::End end) {
  if (end_ != Lockstep::End::no) return;
  end_ = end;
  if (why.empty()) return;
  divergence_ = fmt::format("the steps were alike until rank {} differed at '{}': {}", control_.rank(),
                            voters_.at(kWorld).name_in(lockstep_->next()), why);
}

/// Does what can be done without waiting.
std::optional<Negotiator::Heard> Negotiator::step(TimePoint now, bool pressing) {
  if (auto heard = answer(now)) return heard;
  if (lockstep_ && grows_impatient(now, pressing)) return answer(now);
  return std::nullopt;
}

std::optional<Negotiator::Heard> Negotiator::answer(TimePoint now) {
  while (lockstep_) {
    if (!vote_->has_answered()) {
      if (lockstep_->ready() == 0 && end_ == Lockstep::End::no && !vote_->is_urged()) return std::nullopt;
      vote_->answer(lockstep_->word(end_), now);
      answered_ = now;
    }
    if (!vote_->is_complete()) {
      if (end_ != Lockstep::End::no) vote_->urge();
      return std::nullopt;
    }
    quiet_since_ = {};
    if (auto heard = decide_locked(now)) return heard;
  }
  return std::nullopt;
}

std::chrono::milliseconds Negotiator::patience(bool pressing) const {
  if (vote_->has_answered()) return kLate;
  return pressing ? kPressing : kOutOfOrder;
}

/// When it grows impatient, if nothing happens.
void Negotiator::look_again(TimePoint now, bool pressing) {
  if (lockstep_->waiting() == 0 || end_ != Lockstep::End::no) {
    quiet_since_ = {};
    return;
  }
  if (quiet_since_ == TimePoint{}) quiet_since_ = now;
  next_look_ = std::min(next_look_, quiet_since_ + patience(pressing));
}

/// Whether it has waited for so long that it wants the lock to end. If it has answered in this round, that
/// stands.
bool Negotiator::grows_impatient(TimePoint now, bool pressing) {
  if (quiet_since_ == TimePoint{} || lockstep_->waiting() == 0 || end_ != Lockstep::End::no ||
      now < quiet_since_ + patience(pressing))
    return false;
  const auto waited = in_milliseconds(now - quiet_since_).count();
  end_lock_because(
      vote_->has_answered()
          ? fmt::format("{} has not submitted it for {} ms", describe_ranks(silent_ranks()), waited)
          : fmt::format("it has submitted others of the step, and not that one for {} ms", waited),
      Lockstep::End::after_waiting);
  return true;
}

std::vector<int> Negotiator::silent_ranks() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < vote_->size(); ++rank) {
    if (!vote_->has_answered(rank)) ranks.push_back(rank);
  }
  return ranks;
}

/// The decisions that follow from the answers of a complete round; nothing if the ranks go on waiting, or the
/// lock ends.
std::optional<Negotiator::Heard> Negotiator::decide_locked(TimePoint now) {
  const auto& answers = vote_->conclude();
  const std::uint64_t own = lockstep_->word(Lockstep::End::no);
  if (locked_since_ == TimePoint{}) locked_since_ = now;
  std::size_t count = lockstep_->ready();
  Clock::rep first = answers.front().when;
  auto end = Lockstep::End::no;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    const auto& [word, when] = answers[rank];
    if (Lockstep::place_in(word) != Lockstep::place_in(own)) {
      throw Error(Code::internal,
                  fmt::format("rank {} and rank {} are not at the same place of their schedule",
                              control_.rank(), rank));
    }
    end = std::max(end, Lockstep::end_in(word));
    count = std::min(count, Lockstep::ready_in(word));
    first = std::min(first, when);
  }
  if (end != Lockstep::End::no) {
    end_lock(now, end == Lockstep::End::after_waiting);
    return std::nullopt;
  }
  if (count == 0) return std::nullopt;
  const auto ids = lockstep_->decide(count);
  if (control_.rank() == 0) {
    std::vector<Clock::duration> behind;
    for (const auto& answer : answers) behind.emplace_back(answer.when - first);
    coordinators_.at(kWorld).coordinator.follow_lock(ids, behind);
  }
  Heard heard;
  for (const auto id : ids) heard.decisions.push_back(voters_.at(kWorld).repeated(id));
  return heard;
}

void Negotiator::end_lock(TimePoint now, bool after_waiting) {
  if (control_.rank() == 0) {
    const bool dear = after_waiting && now - locked_since_ < kPays;
    coordinators_.at(kWorld).coordinator.end_lock(lockstep_->decided(), dear);
    for (auto& [group, own] : coordinators_) own.undecided = true;  // what has come in the meantime
  }
  lockstep_.reset();
  const Ballot again = voters_.at(kWorld).ask_again();
  if (!again.repeats.empty() || !again.requests.empty()) cast(again, now);
  if (leaves_) cast_leave(now);
}

std::vector<WaitingTensor> Negotiator::waiting(TimePoint since) const {
  std::vector<WaitingTensor> all;
  for (const auto& [group, own] : coordinators_) {
    for (auto& waiting : own.coordinator.waiting(since)) {
      all.push_back(std::move(waiting));
      all.back().ranks = group == kWorld ? "" : describe_ranks(own.coordinator.members());
    }
  }
  if (auto answers = waiting_for_answers(); answers && answers->since <= since)
    all.push_back(*std::move(answers));
  return all;
}

TimePoint Negotiator::oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& [group, own] : coordinators_) oldest = std::min(oldest, own.coordinator.oldest());
  if (const auto answers = waiting_for_answers()) oldest = std::min(oldest, answers->since);
  return oldest;
}

/// A lock that is to end ends when all have answered; an engine that is blocked does not.
std::optional<WaitingTensor> Negotiator::waiting_for_answers() const {
  if (!lockstep_ || !vote_->has_answered() || !vote_->is_urged()) return std::nullopt;
  const std::vector<int> silent = silent_ranks();
  if (silent.empty()) return std::nullopt;
  const Voter& voter = voters_.at(kWorld);
  WaitingTensor waiting;
  waiting.name = voter.name_in(lockstep_->next());
  waiting.what = describe(voter.asked_in(lockstep_->next()));
  waiting.since = answered_;
  waiting.missing = silent;
  for (int rank = 0; rank < vote_->size(); ++rank) {
    if (vote_->has_answered(rank)) waiting.asked.push_back(rank);
  }
  return waiting;
}

}  // namespace hora
