// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/branch.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace hora {
namespace {

constexpr std::size_t kMostLate = 16;  // that a ballot names; of more, those that were latest

/// Adds the ranks that were late, and if there are too many leaves out some that were less so.
void add_late(std::vector<Late>& late, const RankSet& ranks, Clock::duration behind) {
  const auto known =
      std::find_if(late.begin(), late.end(), [&](const Late& other) { return other.ranks == ranks; });
  if (known != late.end()) {
    known->behind = std::max(known->behind, behind);
    return;
  }
  late.push_back({ranks, behind});
  if (late.size() < 2 * kMostLate) return;
  std::nth_element(late.begin(), late.begin() + kMostLate, late.end(),
                   [](const Late& one, const Late& other) { return one.behind > other.behind; });
  late.resize(kMostLate);
}

bool overlap(const std::vector<DecisionId>& ascending, const std::vector<DecisionId>& others) {
  return ascending.front() <= others.back() && others.front() <= ascending.back();
}

}  // namespace

void Branch::Collected::add(const Part& part) {
  if (asked.empty()) {
    *this = {part.ranks, part.heard, part.since, part.now, part.late};
    return;
  }
  heard = std::min(heard, part.heard);
  Clock::duration behind = part.since - since;
  if (behind < Clock::duration::zero()) {
    for (auto& other : late) other.behind -= behind;
    if (-behind >= kNotable) add_late(late, asked, -behind);
    since = part.since;
    behind = {};
  }
  if (behind >= kNotable) add_late(late, part.ranks, behind);
  for (const auto& other : part.late) add_late(late, other.ranks, other.behind + behind);
  asked.add(part.ranks);
}

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
  const Part part{ballot.ranks, ballot.heard, now - ballot.age, now, ballot.late};
  if (!ballot.repeats.empty() && !repeats_step(ballot, part)) {
    for (const auto id : ballot.repeats) add_repeat(id, part);
  }
  for (const auto& request : ballot.requests) {
    dissolve_step_with(request.name);
    const auto entry = add_to(request.name, part);
    add_asking(entry->second.askings, part.ranks, request);
    settle(entry);
  }
}

/// Goes up as it is, after all that came before it.
void Branch::pass(Ballot ballot) {
  finish_ballots();
  out_.push_back(std::move(ballot));
}

/// Whether these ranks repeat, as a whole, a step that others of the subtree repeat or no rank does yet.
bool Branch::repeats_step(const Ballot& ballot, const Part& part) {
  const auto& ids = ballot.repeats;
  const auto same =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.ids == ids; });
  if (same != steps_.end() && !same->collected.asked.intersects(part.ranks)) {
    same->collected.add(part);
    return true;
  }
  std::vector<Step> others;
  for (auto& step : std::exchange(steps_, {})) {
    if (overlap(step.ids, ids)) {
      dissolve(step);
    } else {
      steps_.push_back(std::move(step));
    }
  }
  const bool fresh = std::none_of(ids.begin(), ids.end(), [this](DecisionId id) {
    return !voter_.knows(id) || by_id_.contains(id) || pending_.contains(voter_.name_in(id));
  });
  if (!fresh) return false;
  steps_.push_back({{}, ids});
  steps_.back().collected.add(part);
  return true;
}

/// A rank asks for this in another way.
void Branch::dissolve_step_with(const std::string& name) {
  const DecisionId* id = steps_.empty() ? nullptr : voter_.number_of(name);
  if (id == nullptr) return;
  const auto step = std::find_if(steps_.begin(), steps_.end(), [id](const Step& other) {
    return std::binary_search(other.ids.begin(), other.ids.end(), *id);
  });
  if (step == steps_.end()) return;
  const Step whole = std::move(*step);
  steps_.erase(step);
  dissolve(whole);
}

/// Its decisions go their own ways.
void Branch::dissolve(const Step& step) {
  const Collected& all = step.collected;
  for (const auto id : step.ids) add_repeat(id, {all.asked, all.heard, all.since, all.came, all.late});
}

void Branch::add_repeat(DecisionId id, const Part& part) {
  auto known = by_id_.find(id);
  if (known == by_id_.end()) {
    if (!voter_.knows(id)) {  // the rank that asks has not heard yet that it is forgotten
      ballot_for(part.ranks, {part.ranks, part.heard, part.since, part.now, part.late}, part.now)
          .repeats.push_back(id);
      return;
    }
    const auto entry = add_to(voter_.name_in(id), part);
    entry->second.ids.push_back(id);
    known = by_id_.emplace(id, entry).first;
  } else {
    add_to(known->second->first, part);
  }
  add_asking(known->second->second.askings, part.ranks, id);
  settle(known->second);
}

Branch::PendingByName::iterator Branch::add_to(const std::string& name, const Part& part) {
  const auto [entry, fresh] = pending_.try_emplace(name);
  Collected& collected = entry->second.collected;
  if (collected.asked.intersects(part.ranks)) {
    throw Error(Code::internal, fmt::format("bad ballot from {}: it asks twice for '{}'",
                                            describe_ranks(part.ranks.list()), name));
  }
  if (fresh) ages_.emplace(part.now, name);
  collected.add(part);
  return entry;
}

/// Looks whether it is to go up.
void Branch::settle(PendingByName::iterator entry) {
  Pending& pending = entry->second;
  if (pending.due || (!pending.told && pending.collected.asked != ranks_)) return;
  pending.due = true;
  due_.push_back(entry);
}

std::vector<Ballot> Branch::take(TimePoint now) {
  std::vector<Step> waiting;
  for (auto& step : std::exchange(steps_, {})) {
    if (step.collected.asked == ranks_) {
      auto& repeats = ballot_for(ranks_, step.collected, now).repeats;
      repeats.insert(repeats.end(), step.ids.begin(), step.ids.end());
    } else if (now - step.collected.came >= kPatience) {
      dissolve(step);
    } else {
      waiting.push_back(std::move(step));
    }
  }
  steps_ = std::move(waiting);
  for (; !ages_.empty() && now - ages_.begin()->first >= kPatience; ages_.erase(ages_.begin())) {
    if (const auto entry = oldest(); entry != pending_.end()) {
      entry->second.told = true;
      settle(entry);
    }
  }
  for (const auto entry : std::exchange(due_, {})) tell(entry, now);
  finish_ballots();
  return std::exchange(out_, {});
}

TimePoint Branch::next() {
  while (!ages_.empty() && oldest() == pending_.end()) ages_.erase(ages_.begin());
  TimePoint first = ages_.empty() ? TimePoint::max() : ages_.begin()->first;
  for (const auto& step : steps_) first = std::min(first, step.collected.came);
  return first == TimePoint::max() ? first : first + kPatience;
}

/// The one whose age is the first; none: it has gone since.
Branch::PendingByName::iterator Branch::oldest() {
  const auto& [came, name] = *ages_.begin();
  const auto entry = pending_.find(name);
  return entry == pending_.end() || entry->second.collected.came == came ? entry : pending_.end();
}

/// All that waits goes up.
void Branch::tell_all(TimePoint now) {
  for (const auto& step : std::exchange(steps_, {})) dissolve(step);
  for (auto entry = pending_.begin(); entry != pending_.end();) tell(entry++, now);
  forget();
}

void Branch::tell(PendingByName::iterator entry, TimePoint now) {
  Pending& pending = entry->second;
  for (auto& asking : pending.askings) {
    Ballot& ballot = ballot_for(asking.who, pending.collected, now);
    if (asking.repeat != 0) {
      ballot.repeats.push_back(asking.repeat);
    } else {
      ballot.requests.push_back(*asking.request);
    }
  }
  if (pending.collected.asked == ranks_) return erase(entry);
  pending.askings.clear();
  pending.collected.late.clear();
  pending.collected.heard = std::numeric_limits<std::uint64_t>::max();
  pending.due = false;
}

/// The ballot in which a gathering goes up. A gathering that is much older than the rest has a ballot of its
/// own, as a ballot has one age.
Ballot& Branch::ballot_for(const RankSet& ranks, const Collected& collected, TimePoint now) {
  using std::chrono::milliseconds;
  const Clock::duration age = std::max(now - collected.since, Clock::duration::zero());
  const auto [found, fresh] =
      ballots_.try_emplace({ranks, std::chrono::duration_cast<milliseconds>(age).count()});
  Ballot& ballot = found->second;
  if (fresh) {
    ballot.ranks = ranks;
    ballot.heard = collected.heard;
  }
  ballot.heard = std::min(ballot.heard, collected.heard);
  ballot.age = std::max(ballot.age, age);
  for (const auto& late : collected.late) {
    RankSet own = late.ranks.common(ranks);
    if (!own.empty()) add_late(ballot.late, own, late.behind);
  }
  return ballot;
}

void Branch::finish_ballots() {
  if (ballots_.empty()) return;
  // Several may speak for one rank: the first must not say that it has heard more than the others know.
  std::uint64_t heard = fewest_heard();
  for (const auto& [key, ballot] : ballots_) heard = std::min(heard, ballot.heard);
  for (auto& [key, ballot] : ballots_) {
    ballot.heard = heard;
    std::sort(ballot.repeats.begin(), ballot.repeats.end());
    out_.push_back(std::move(ballot));
  }
  ballots_.clear();
}

/// The fewest verdicts heard by a rank whose asking waits here. Such ranks may call a decision by a number
/// that is forgotten when they have heard more.
std::uint64_t Branch::fewest_heard() const {
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& step : steps_) fewest = std::min(fewest, step.collected.heard);
  for (const auto& [name, pending] : pending_) {
    if (!pending.askings.empty()) fewest = std::min(fewest, pending.collected.heard);
  }
  return fewest;
}

void Branch::erase(PendingByName::iterator entry) {
  for (const auto id : entry->second.ids) by_id_.erase(id);
  if (entry->second.due) std::erase(due_, entry);
  pending_.erase(entry);
}

/// It is decided: nobody waits for it any more.
void Branch::drop(const std::string& name) {
  if (const auto entry = pending_.find(name); entry != pending_.end()) erase(entry);
}

void Branch::forget() {
  steps_.clear();
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
      // Some may have asked for it by a number that was unknown here.
      if (!pending_.empty() && voter_.knows(item.repeat)) drop(voter_.asked_in(item.repeat).name);
      continue;
    }
    if (request.operation == Operation::join) joined_ = {};
    if (!item.decision.status.ok()) {
      for (const auto& step : std::exchange(steps_, {})) dissolve(step);
    }
    drop(request.name);
  }
  if (verdict.lock.empty()) return;
  locked_by_ = voter_.heard();
  left_ = {};
  joined_ = {};
  forget();
  ballots_.clear();
  out_.clear();
}

}  // namespace hora
