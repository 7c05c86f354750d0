// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include "core/comm/world.h"
#include "core/negotiate/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hora {

Coordinator::Coordinator(std::vector<int> members, std::size_t capacity, bool locks)
    : members_(std::move(members)),
      size_(static_cast<int>(members_.size())),
      schedule_(capacity),
      heard_(members_.size()),
      locks_(locks),
      left_(members_.size()),
      behind_(members_.size()) {}

void Coordinator::add(int place, const Ballot& ballot, TimePoint now) {
  const auto who = static_cast<std::size_t>(place);
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::internal, fmt::format("bad ballot from rank {}: {}", members_[who], what));
  };
  if (left_[who]) refuse("it has left already");
  if (ballot.heard < heard_[who] || ballot.heard > verdicts_) refuse("it has not heard that many verdicts");
  heard_[who] = ballot.heard;
  if (ballot.heard < locked_by_) return;
  const auto asks = [&](const std::string& name) -> Pending& {
    Pending& asked = pending(name, who, now);
    if (asked.has_asked(place)) refuse(fmt::format("it asks twice for '{}'", name));
    ++asked.asked;
    return asked;
  };
  for (const auto id : ballot.repeats) {
    const auto known = remembered_.find(id);
    if (known == remembered_.end()) refuse(fmt::format("no decision has the number {}", id));
    const std::string& name = known->second.requests.front().name;
    asks(name).repeats[who] = id;
    settle(name);
  }
  for (const auto& request : ballot.requests) {
    if (request.name.empty()) refuse("a request without a name");
    Pending& asked = asks(request.name);
    asked.requests.emplace(place, request);
    asked.joins = asked.joins || request.operation == Operation::join;
    settle(request.name);
    if (request.operation == Operation::join) join(place, request);
  }
  if (ballot.leaving) leave(place);
  forget_what_all_have_heard();
}

Coordinator::Pending& Coordinator::pending(const std::string& name, std::size_t place, TimePoint now) {
  auto [known, fresh] = pending_.try_emplace(name);
  Pending& pending = known->second;
  if (fresh) {
    pending.repeats.resize(static_cast<std::size_t>(size_));
    pending.age = ages_.emplace(age_at(now), now, name);
  } else if (now >= pending.since) {
    behind_[place] = std::max(behind_[place], now - pending.since);
    return pending;
  } else {
    // Rank 0's own asking is added at once, and letters wait until it receives them: only it can be first
    // here without having asked first.
    behind_[pending.first] = std::max(behind_[pending.first], pending.since - now);
    ages_.splice(age_at(now), ages_, pending.age);
    pending.age->first = now;
  }
  pending.since = now;
  pending.first = place;
  return pending;
}

/// The place of one that was first asked for then.
Coordinator::Ages::iterator Coordinator::age_at(TimePoint since) {
  auto at = ages_.end();
  while (at != ages_.begin() && std::prev(at)->first > since) --at;
  return at;
}

void Coordinator::join(int place, const Request& request) {
  joined_.push_back(place);
  divide_by_initial_size_ = request.divide_by_initial_size;
  settle_all();
}

void Coordinator::leave(int place) {
  left_[static_cast<std::size_t>(place)] = true;
  ++leaving_;
  settle_all();
}

void Coordinator::settle_all() {
  std::vector<std::string> names;
  for (const auto& [since, name] : ages_) names.push_back(name);
  for (const auto& name : names) settle(name);
}

void Coordinator::settle(const std::string& name) {
  const auto entry = pending_.find(name);
  Pending& pending = entry->second;
  if (pending.ready) return;
  if (complete(pending)) {
    pending.ready = true;
    ready_.push_back(name);
  } else if (const auto gone = left_without(pending)) {
    if (pending.joins) joined_.clear();
    failed_.push_back(failure(any_asked(pending), Code::aborted,
                              fmt::format("rank {} has left the job without submitting it",
                                          members_[static_cast<std::size_t>(*gone)])));
    erase(entry);
  }
}

bool Coordinator::complete(const Pending& pending) const {
  if (pending.asked == size_) return true;
  if (pending.joins || joined_.empty()) return false;
  const auto standing_in =
      std::count_if(joined_.begin(), joined_.end(), [&](int place) { return !pending.has_asked(place); });
  return pending.asked + standing_in == size_;
}

std::optional<int> Coordinator::left_without(const Pending& pending) const {
  if (leaving_ == 0) return std::nullopt;
  for (int place = 0; place < size_; ++place) {
    if (left_[static_cast<std::size_t>(place)] && !pending.has_asked(place)) return place;
  }
  return std::nullopt;
}

void Coordinator::erase(PendingByName::iterator entry) {
  ages_.erase(entry->second.age);
  pending_.erase(entry);
}

std::optional<Verdict> Coordinator::decide() {
  Verdict verdict;
  const auto failing = failing_bundles();
  auto ready = std::exchange(ready_, {});
  // A join is over when all that its ranks have stood in for is.
  std::stable_partition(ready.begin(), ready.end(),
                        [&](const auto& name) { return !pending_.at(name).joins; });
  for (const auto& name : ready) {
    const auto entry = pending_.find(name);
    const Request& request = any_asked(entry->second);
    if (const auto why = failing.find(request.bundle); why != failing.end()) {
      Decision decision = decide_anew(entry->second);
      if (decision.status.ok())
        decision = failure(request, Code::mismatch, fmt::format("its group failed: {}", why->second));
      verdict.items.push_back({0, std::move(decision)});
    } else {
      verdict.items.push_back(decide(entry->second));
    }
    erase(entry);
  }
  for (auto& decision : failed_) verdict.items.push_back({0, std::move(decision)});
  failed_.clear();
  verdict.end = leaving_ == size_ && !ended_;
  ended_ = ended_ || verdict.end;
  verdict.trace = std::exchange(command_, TraceCommand::none);
  if (verdict.items.empty() && !verdict.end && verdict.trace == TraceCommand::none) return std::nullopt;
  ++verdicts_;
  lock(verdict);
  return verdict;
}

/// Locks the order of decisions if they have a rhythm, and nothing is under way that does not belong to it.
void Coordinator::lock(Verdict& verdict) {
  if (!locks_) return;
  for (const auto& item : verdict.items) {
    if (item.repeat == 0) {
      rhythm_.disturb();
    } else {
      rhythm_.repeat(item.repeat);
    }
  }
  if (!rhythm_.is_steady() || !joined_.empty() || leaving_ > 0 || verdict.trace != TraceCommand::none) return;
  std::vector<DecisionId> order = rhythm_.order();
  const std::unordered_set<DecisionId> ids(order.begin(), order.end());
  const bool all =
      std::all_of(pending_.begin(), pending_.end(),
                  [&](const auto& named) { return fits(named.second, ids); }) &&
      std::all_of(order.begin(), order.end(), [this](DecisionId id) { return schedule_.knows(id); });
  if (!all) return;
  verdict.lock = std::move(order);
  verdict.made = rhythm_.made();
  locked_by_ = verdicts_;
  rhythm_.begin_lock();
  pending_.clear();
  ages_.clear();
}

bool Coordinator::fits(const Pending& pending, const std::unordered_set<DecisionId>& ids) const {
  return pending.requests.empty() && std::all_of(pending.repeats.begin(), pending.repeats.end(),
                                                 [&](DecisionId id) { return id == 0 || ids.contains(id); });
}

void Coordinator::follow_lock(const std::vector<DecisionId>& decided,
                              const std::vector<Clock::duration>& behind) {
  for (std::size_t place = 0; place < behind_.size(); ++place)
    behind_[place] = std::max(behind_[place], behind[place]);
  for (const auto id : decided) {
    schedule_.use(id);
    count_step(id, ++remembered_.at(id).times);
  }
}

std::unordered_map<std::string, std::string> Coordinator::failing_bundles() const {
  std::unordered_map<std::string, std::string> failing;
  for (const auto& name : ready_) {
    const Pending& pending = pending_.at(name);
    const std::string& bundle = any_asked(pending).bundle;
    if (bundle.empty() || repeated(pending)) continue;
    const Status status = decide_anew(pending).status;
    if (!status.ok()) failing.emplace(bundle, status.message);
  }
  for (const auto& decision : failed_) {
    if (!decision.request.bundle.empty()) failing.emplace(decision.request.bundle, decision.status.message);
  }
  return failing;
}

bool Coordinator::repeated(const Pending& pending) const {
  const DecisionId first = pending.repeats.front();
  return first != 0 && schedule_.knows(first) &&
         std::all_of(pending.repeats.begin(), pending.repeats.end(),
                     [first](DecisionId id) { return id == first; });
}

Verdict::Item Coordinator::decide(const Pending& pending) {
  if (repeated(pending)) {
    const DecisionId id = pending.repeats.front();
    schedule_.use(id);
    count_step(id, ++remembered_.at(id).times);
    return {id, {}};
  }
  return number(decide_anew(pending), pending);
}

/// A decision has been repeated, which makes so many times.
void Coordinator::count_step(DecisionId repeated, std::uint64_t times) {
  if (!schedule_.knows(pacemaker_)) pacemaker_ = repeated;
  if (repeated != pacemaker_) return;
  steps_ended_.push_back({times - 1, behind_});
  std::fill(behind_.begin(), behind_.end(), Clock::duration::zero());
}

std::uint64_t Coordinator::step_of(const Pending& pending) const {
  std::uint64_t times = 0;
  for (const auto id : pending.repeats) {
    if (id != 0) times = std::max(times, remembered_.at(id).times);
  }
  return times == 0 ? 0 : times + 1;
}

Decision Coordinator::decide_anew(const Pending& pending) const {
  if (pending.asked < size_) return decide_with_stand_ins(pending);
  std::vector<const Request*> requests;
  requests.reserve(members_.size());
  for (int place = 0; place < size_; ++place) requests.push_back(&asked_by(pending, place));
  Decision decision = agree(requests, members_);
  if (pending.joins && decision.status.ok() && !joined_.empty())
    decision.request.root = members_[static_cast<std::size_t>(joined_.back())];
  return decision;
}

Decision Coordinator::decide_with_stand_ins(const Pending& pending) const {
  const Request& like = any_asked(pending);
  const auto substitute = stand_in(like);
  std::vector<int> places;
  std::vector<int> ranks;
  std::vector<const Request*> requests;
  for (int place = 0; place < size_; ++place) {
    const bool asked = pending.has_asked(place);
    requests.push_back(asked ? &asked_by(pending, place) : substitute ? &*substitute : &like);
    if (asked) continue;
    places.push_back(place);
    ranks.push_back(members_[static_cast<std::size_t>(place)]);
  }
  if (!substitute) {
    return failure(
        like, Code::mismatch,
        fmt::format("{}{} is not supported with join, and {} joined already", name(like.operation),
                    like.operation == Operation::allreduce ? " of this kind with a prescale factor" : "",
                    describe_ranks(ranks)));
  }
  Decision decision = agree(requests, members_);
  if (!decision.status.ok()) return decision;
  decision.joined = std::move(places);
  if (!divide_by_initial_size_) decision.divisor -= static_cast<int>(decision.joined.size());
  return decision;
}

Verdict::Item Coordinator::number(Decision decision, const Pending& pending) {
  Verdict::Item item{0, std::move(decision)};
  if (pending.joins) joined_.clear();
  if (!Schedule::keeps(item.decision)) return item;
  Remembered remembered;
  auto& requests = remembered.requests;
  requests.push_back(asked_by(pending, 0));
  bool alike = true;
  for (int place = 1; place < size_ && alike; ++place) alike = asked_by(pending, place) == requests.front();
  for (int place = 1; place < size_ && !alike; ++place) requests.push_back(asked_by(pending, place));
  const DecisionId* former = schedule_.find(item.decision.request.name);
  if (former != nullptr) remembered.times = remembered_.at(*former).times + 1;
  const auto [id, forgotten] = schedule_.learn(item.decision);
  remembered_.emplace(id, std::move(remembered));
  if (forgotten != 0) forgotten_.emplace_back(verdicts_ + 1, forgotten);
  return item;
}

const Request& Coordinator::asked_by(const Pending& pending, int place) const {
  const DecisionId id = pending.repeats[static_cast<std::size_t>(place)];
  if (id == 0) return pending.requests.at(place);
  const auto& requests = remembered_.at(id).requests;
  return requests.size() == 1 ? requests.front() : requests[static_cast<std::size_t>(place)];
}

const Request& Coordinator::any_asked(const Pending& pending) const {
  int place = 0;
  while (!pending.has_asked(place)) ++place;
  return asked_by(pending, place);
}

void Coordinator::forget_what_all_have_heard() {
  if (forgotten_.empty()) return;
  const auto heard = *std::min_element(heard_.begin(), heard_.end());
  while (!forgotten_.empty() && forgotten_.front().first <= heard) {
    spell_out(forgotten_.front().second);
    remembered_.erase(forgotten_.front().second);
    forgotten_.pop_front();
  }
}

void Coordinator::spell_out(DecisionId id) {
  const auto entry = pending_.find(remembered_.at(id).requests.front().name);
  if (entry == pending_.end()) return;
  for (int place = 0; place < size_; ++place) {
    DecisionId& repeat = entry->second.repeats[static_cast<std::size_t>(place)];
    if (repeat != id) continue;
    entry->second.requests.emplace(place, asked_by(entry->second, place));
    repeat = 0;
  }
}

std::vector<Coordinator::Waiting> Coordinator::waiting(TimePoint since) const {
  std::vector<Waiting> all;
  for (const auto& [asked, name] : ages_) {
    if (asked > since) break;
    const Pending& pending = pending_.at(name);
    if (pending.ready) continue;
    const Request& request = any_asked(pending);
    Waiting waiting{name, describe(request), step_of(pending), pending.since, {}, {}, {}};
    for (int place = 0; place < size_; ++place) {
      const int rank = members_[static_cast<std::size_t>(place)];
      (pending.has_asked(place) ? waiting.asked : waiting.missing).push_back(rank);
    }
    all.push_back(std::move(waiting));
  }
  return all;
}

TimePoint Coordinator::oldest() const { return ages_.empty() ? TimePoint::max() : ages_.front().first; }

}  // namespace hora
