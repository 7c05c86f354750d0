// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/branch.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace hora {

void Branch::add(Ballot ballot, TimePoint now) {
  if (ballot.report != Report::none || ballot.group != kWorld) return pass(std::move(ballot));
  if (ballot.heard < locked_by_) return;
  const bool joins = std::any_of(ballot.requests.begin(), ballot.requests.end(),
                                 [](const Request& request) { return request.operation == Operation::join; });
  if (ballot.leaving || joins) {
    tell_all(now);
    (joins ? joined_ : left_).add(ballot.ranks);
  }
  if (!left_.empty() || !joined_.empty()) return pass(std::move(ballot));
  const Arrival arrival{ballot.ranks, ballot.heard, now - ballot.age, now, ballot.late};
  if (!ballot.repeats.empty() && !repeats_step(ballot, arrival)) {
    for (const auto id : ballot.repeats) add_repeat(id, arrival);
  }
  for (const auto& request : ballot.requests) add_request(request, arrival);
}

/// Sends a ballot up unchanged, after all that came before it.
void Branch::pass(Ballot ballot) {
  finish_ballots();
  out_.pass(std::move(ballot));
}

/// Notes a ballot that repeats a whole step. Returns false if ranks of the subtree have asked for a part of
/// this step in another way. The decisions are then added one by one.
bool Branch::repeats_step(const Ballot& ballot, const Arrival& arrival) {
  const auto& ids = ballot.repeats;
  if (steps_.join(ids, arrival)) return true;
  dissolve(steps_.extract_overlapping(ids));
  const bool fresh = std::none_of(ids.begin(), ids.end(), [this](DecisionId id) {
    return !voter_.knows(id) || by_id_.contains(id) || pending_.contains(voter_.name_in(id));
  });
  if (fresh) steps_.begin(ids, arrival);
  return fresh;
}

/// Dissolves the step that has a decision of this name, because a rank asks for that in full.
void Branch::dissolve_step_with(const std::string& name) {
  const DecisionId* id = steps_.empty() ? nullptr : voter_.number_of(name);
  if (id == nullptr) return;
  dissolve(steps_.extract_if(
      [id](const RepeatedStep& step) { return std::binary_search(step.ids.begin(), step.ids.end(), *id); }));
}

/// Makes the decisions of these steps wait one by one.
void Branch::dissolve(const std::vector<RepeatedStep>& steps) {
  for (const auto& [all, ids] : steps) {
    for (const auto id : ids) add_repeat(id, {all.asked, all.heard, all.since, all.came, all.late});
  }
}

void Branch::add_repeat(DecisionId id, const Arrival& arrival) {
  auto known = by_id_.find(id);
  if (known == by_id_.end()) {
    if (!voter_.knows(id))  // forgotten, but the rank that asks has not heard that yet
      return out_.add({arrival.ranks, id, nullptr}, Arrivals(arrival), arrival.came);
    const auto entry = add_to(voter_.name_in(id), arrival);
    entry->second.ids.push_back(id);
    known = by_id_.emplace(id, entry).first;
  } else {
    add_to(known->second->first, arrival);
  }
  add_asking(known->second->second.askings, arrival.ranks, id);
  settle(known->second);
}

void Branch::add_request(const Request& request, const Arrival& arrival) {
  dissolve_step_with(request.name);
  const auto entry = add_to(request.name, arrival);
  entry->second.told = entry->second.told || is_of_some(request);  // ranks that it does not need never ask
  add_asking(entry->second.askings, arrival.ranks, request);
  settle(entry);
}

Branch::PendingByName::iterator Branch::add_to(const std::string& name, const Arrival& arrival) {
  const auto [entry, fresh] = pending_.try_emplace(name);
  Arrivals& arrivals = entry->second.arrivals;
  if (arrivals.asked.intersects(arrival.ranks)) {
    throw Error(Code::internal, fmt::format("bad ballot from {}: it asks twice for '{}'",
                                            describe_ranks(arrival.ranks.list()), name));
  }
  if (fresh) ages_.emplace(arrival.came, name);
  arrivals.add(arrival);
  return entry;
}

/// Marks the tensor as due if it can go up: all ranks have asked for it, or a part has gone up before.
void Branch::settle(PendingByName::iterator entry) {
  Pending& pending = entry->second;
  if (pending.due || (!pending.told && pending.arrivals.asked != ranks_)) return;
  pending.due = true;
  due_.push_back(entry);
}

std::vector<Ballot> Branch::take(TimePoint now) {
  take_steps(now);
  tell_old(now);
  for (const auto entry : std::exchange(due_, {})) tell(entry, now);
  finish_ballots();
  return out_.take();
}

/// Sends the steps up that all ranks repeat. Dissolves the steps that have waited for `kMostWait`.
void Branch::take_steps(TimePoint now) {
  for (const auto& step :
       steps_.extract_if([this](const RepeatedStep& other) { return other.arrivals.asked == ranks_; }))
    out_.add(step.ids, step.arrivals, now);
  dissolve(
      steps_.extract_if([now](const RepeatedStep& step) { return now - step.arrivals.came >= kMostWait; }));
}

/// Marks the tensors as due that have waited for `kMostWait`.
void Branch::tell_old(TimePoint now) {
  for (; !ages_.empty() && now - ages_.begin()->first >= kMostWait; ages_.erase(ages_.begin())) {
    if (const auto entry = oldest(); entry != pending_.end()) {
      entry->second.told = true;
      settle(entry);
    }
  }
}

TimePoint Branch::next() {
  while (!ages_.empty() && oldest() == pending_.end()) ages_.erase(ages_.begin());
  TimePoint first = steps_.oldest();
  if (!ages_.empty()) first = std::min(first, ages_.begin()->first);
  return first == TimePoint::max() ? first : first + kMostWait;
}

/// The tensor of the first entry in `ages_`; `end()` if the tensor is no longer pending.
Branch::PendingByName::iterator Branch::oldest() {
  const auto& [came, name] = *ages_.begin();
  const auto entry = pending_.find(name);
  return entry == pending_.end() || entry->second.arrivals.came == came ? entry : pending_.end();
}

/// Sends up all that waits here.
void Branch::tell_all(TimePoint now) {
  dissolve(steps_.extract_all());
  for (auto entry = pending_.begin(); entry != pending_.end();) tell(entry++, now);
  forget();
}

void Branch::tell(PendingByName::iterator entry, TimePoint now) {
  Pending& pending = entry->second;
  for (const auto& asking : pending.askings) out_.add(asking, pending.arrivals, now);
  if (pending.arrivals.asked == ranks_) return erase(entry);
  pending.askings.clear();
  pending.arrivals.late.clear();
  pending.arrivals.heard = std::numeric_limits<std::uint64_t>::max();
  pending.due = false;
}

/// Ranks whose askings wait here may use a number that is forgotten once they have heard more verdicts. So no
/// ballot says that its ranks have heard more than these ranks.
void Branch::finish_ballots() {
  if (!out_.has_unfinished()) return;
  std::uint64_t fewest = steps_.fewest_heard();
  for (const auto& [name, pending] : pending_) {
    if (!pending.askings.empty()) fewest = std::min(fewest, pending.arrivals.heard);
  }
  out_.finish(fewest);
}

void Branch::erase(PendingByName::iterator entry) {
  for (const auto id : entry->second.ids) by_id_.erase(id);
  if (entry->second.due) std::erase(due_, entry);
  pending_.erase(entry);
}

/// Drops a tensor that is decided.
void Branch::drop(const std::string& name) {
  if (const auto entry = pending_.find(name); entry != pending_.end()) erase(entry);
}

void Branch::forget() {
  steps_ = {};
  by_id_.clear();
  due_.clear();
  ages_.clear();
  pending_.clear();
}

void Branch::hear(const Verdict& verdict) {
  if (verdict.group != kWorld) return;
  for (const auto& item : verdict.items) {
    const Request& request = item.decision.request;
    if (request.name.empty()) {
      // Some ranks may have asked by a number that was not known here.
      if (!pending_.empty() && voter_.knows(item.repeat)) drop(voter_.asked_in(item.repeat).name);
      continue;
    }
    if (request.operation == Operation::join) joined_ = {};
    if (!item.decision.status.ok()) dissolve(steps_.extract_all());
    drop(request.name);
  }
  if (verdict.lock.empty()) return;
  locked_by_ = voter_.heard();
  left_ = {};
  joined_ = {};
  forget();
  out_.clear();
}

}  // namespace hora
