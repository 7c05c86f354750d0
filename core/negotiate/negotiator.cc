// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/negotiator.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace hora {
namespace {

constexpr TimePoint kAtOnce = TimePoint::min();

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Negotiator::Negotiator(Control& control, ReadinessVote* vote, std::size_t capacity)
    : control_(control),
      capacity_(capacity),
      may_lock_(vote != nullptr),
      locked_(control.rank(), vote, voters_.try_emplace(kWorld, kWorld, capacity).first->second),
      coordinators_(control.size()) {
  add_group(kWorld, everybody(control.size()));
  const TreePosition& position = control.position();
  const bool star = control.rank() == 0 && static_cast<int>(position.children.size()) == control.size() - 1;
  if (!position.children.empty() && !star)
    branch_.emplace(RankSet(control.rank(), position.end), voters_.at(kWorld));
}

void Negotiator::add_group(int group, const std::vector<int>& members) {
  if (std::binary_search(members.begin(), members.end(), control_.rank()))
    voters_.try_emplace(group, group, capacity_);
  if (control_.rank() == 0) coordinators_.add_group(group, members, capacity_, group == kWorld && may_lock_);
}

void Negotiator::remove_group(int group) {
  voters_.erase(group);
  left_.erase(group);
  coordinators_.remove_group(group);
}

// --- asking ---

void Negotiator::ask(int group, const std::vector<Request>& requests, TimePoint now) {
  const auto voter = voters_.find(group);
  if (voter == voters_.end() || requests.empty() || left_.contains(group)) return;
  if (locked_.holds() && group == kWorld) return locked_.ask(requests);
  if (locked_.holds()) locked_.end(fmt::format("'{}' is of process set {}", requests.front().name, group));
  const auto leaves = [group](const Request& each) {
    return group != kWorld && each.operation == Operation::remove_process_set;
  };
  const auto removal = std::find_if(requests.begin(), requests.end(), leaves);
  if (removal != requests.begin()) cast(voter->second.ask({requests.begin(), removal}), now);
  if (removal != requests.end()) leave_group(group, voter->second, true, now);
}

void Negotiator::leave(TimePoint now) {
  leaves_ = true;
  if (locked_.holds()) return locked_.end({});
  cast_leave(now);
}

void Negotiator::cast_leave(TimePoint now) {
  // The world comes last, because leaving it may end the job.
  for (auto voter = voters_.rbegin(); voter != voters_.rend(); ++voter) {
    if (voter->first == kWorld) {
      cast(voter->second.leave(false), now);
    } else {
      leave_group(voter->first, voter->second, false, now);
    }
  }
}

/// Leaves a process set, unless this rank has.
void Negotiator::leave_group(int group, Voter& voter, bool stays, TimePoint now) {
  if (left_.insert(group).second) cast(voter.leave(stays), now);
}

void Negotiator::command(TraceCommand command) {
  coordinators_.tell_world().command(command);
  locked_.end({});
}

void Negotiator::fuse_up_to(std::uint64_t bytes) {
  coordinators_.tell_world().fuse_up_to(bytes);
  locked_.end({});
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

/// Sends a ballot of this rank to its parent, or gives it to the branch or the coordinators on this rank.
void Negotiator::cast(Ballot ballot, TimePoint now) {
  if (control_.rank() != 0 && !branch_) return control_.send(control_.position().parent, encode(ballot));
  ballot.ranks = RankSet(control_.rank());
  if (!branch_) return count(ballot, now);
  branch_->add(std::move(ballot), now);
  pass_on(now);
}

/// Takes the ballots that a child has sent for itself and for the ranks below it.
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

/// Passes on the ballots of this rank and the ranks below it, as far as they are merged. Rank 0 counts them.
void Negotiator::pass_on(TimePoint now) {
  if (!branch_) return;
  const auto ballots = branch_->take(now);
  if (control_.rank() != 0) {
    if (!ballots.empty()) control_.send(control_.position().parent, encode(ballots));
    return;
  }
  for (const auto& ballot : ballots) count(ballot, now);
}

/// Rank 0: gives a ballot to the coordinators.
void Negotiator::count(const Ballot& ballot, TimePoint now) {
  if (coordinators_.add(ballot, now)) locked_.end({});
}

// --- hearing ---

std::vector<Negotiator::Heard> Negotiator::hear(TimePoint now, bool pressing) {
  std::vector<Heard> heard;
  next_look_ = TimePoint::max();
  had_verdict_ = false;
  if (control_.rank() != 0) {
    // One verdict at a time, because the next one may be of a group that this one adds.
    if (auto verdict = next_verdict(now)) heard.push_back(*std::move(verdict));
  } else {
    collect();
    pass_on(now);
    if (!locked_.holds()) heard = decide();  // ballots that come in a lock can wait until it has ended
  }
  if (branch_) next_look_ = branch_->next();
  if (locked_.holds() && heard.empty()) {
    if (auto decided = step_locked(now, pressing)) heard.push_back(*std::move(decided));
  }
  if (locked_.holds()) next_look_ = std::min(next_look_, locked_.wait_ends_at(now, pressing));
  return heard;
}

/// Rank 0: decides all that has become decidable, in all groups.
std::vector<Negotiator::Heard> Negotiator::decide() {
  std::vector<Heard> heard;
  while (const auto verdict = coordinators_.decide()) {
    control_.announce(coordinators_.others_in(verdict->group), encode(*verdict));
    if (voters_.contains(verdict->group)) heard.push_back(apply(*verdict));
  }
  return heard;
}

bool Negotiator::has_more() const {
  if (had_verdict_) return true;
  return locked_.holds() ? locked_.has_more() : coordinators_.is_undecided();
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
  if (verdict.inquiry) return {kWorld, {}, false, TraceCommand::none, true, 0};
  const auto voter = voters_.find(verdict.group);
  if (voter == voters_.end())
    throw Error(Code::internal, fmt::format("bad verdict: this rank is not in group {}", verdict.group));
  Heard heard{verdict.group,
              voter->second.apply(verdict),
              verdict.end && verdict.group == kWorld,
              verdict.trace,
              false,
              verdict.fuse_up_to,
              verdict.left,
              verdict.ended};
  if (branch_) branch_->hear(verdict);
  if (!verdict.lock.empty()) locked_.begin(verdict, leaves_);
  return heard;
}

// --- hearing while the world's decisions are locked ---

std::optional<Negotiator::Heard> Negotiator::step_locked(TimePoint now, bool pressing) {
  const auto decided = locked_.step(now, pressing);
  if (const auto ended = locked_.take_ended()) go_on_unlocked(*ended, now);
  if (!decided) return std::nullopt;
  if (control_.rank() == 0) coordinators_.world().follow_lock(decided->ids, decided->behind);
  Heard heard;
  heard.decisions.reserve(decided->ids.size());
  for (const auto id : decided->ids) heard.decisions.push_back(voters_.at(kWorld).repeated(id));
  return heard;
}

/// Asks by ballot for all that this rank has under way.
void Negotiator::go_on_unlocked(const LockedOrder::Ended& ended, TimePoint now) {
  if (control_.rank() == 0) {
    coordinators_.world().end_lock(ended.decisions, ended.dear);
    coordinators_.decide_all_again();  // ballots that have come while the order was locked
  }
  const Ballot again = voters_.at(kWorld).ask_again();
  if (!again.repeats.empty() || !again.requests.empty()) cast(again, now);
  if (leaves_) cast_leave(now);
}

// --- what waits ---

std::vector<WaitingTensor> Negotiator::waiting(TimePoint since) const {
  auto all = coordinators_.waiting(since);
  if (auto next = locked_.waiting(); next && next->since <= since) all.push_back(*std::move(next));
  return all;
}

TimePoint Negotiator::oldest() const {
  const auto next = locked_.waiting();
  return std::min(coordinators_.oldest(), next ? next->since : TimePoint::max());
}

}  // namespace hora
