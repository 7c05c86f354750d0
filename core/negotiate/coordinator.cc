// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include "core/comm/world.h"
#include "core/negotiate/hint.h"
#include "core/negotiate/ordinal.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hora {
namespace {

void sort_by_place(std::vector<Voice>& voices) {
  std::sort(voices.begin(), voices.end(),
            [](const Voice& one, const Voice& other) { return one.places.front() < other.places.front(); });
}

}  // namespace

Coordinator::Coordinator(std::vector<int> members, std::size_t capacity, bool locks)
    : members_(std::move(members)),
      everybody_(0, static_cast<int>(members_.size())),
      schedule_(capacity),
      heard_(members_.size()),
      locks_(locks),
      behind_(members_.size()) {}

void Coordinator::refuse(const RankSet& places, const std::string& what) const {
  throw Error(Code::internal,
              fmt::format("bad ballot from {}: {}", describe_ranks(ranks_of(places, members_)), what));
}

void Coordinator::add(const RankSet& places, const Ballot& ballot, TimePoint now) {
  if (left_.intersects(places)) refuse(places, "it has left already");
  if (ballot.heard > verdicts_) refuse(places, "it has not heard that many verdicts");
  for (const auto& [first, end] : places.runs()) {
    for (auto heard = heard_.begin() + first; heard != heard_.begin() + end; ++heard)
      *heard = std::max(*heard, ballot.heard);  // others of a ballot may have heard fewer
  }
  if (ballot.heard < locked_by_) return;
  if (all_repeat(places, ballot)) {
    for (const auto id : ballot.repeats) ready_.push_back({{}, id});
    for (const auto& late : ballot.late) note_behind(late.ranks, late.behind);
    return forget_what_all_have_heard();
  }
  Askers askers{places, now - ballot.age};
  for (const auto id : ballot.repeats) ask(askers, id);
  for (const auto& request : ballot.requests) ask(askers, request);
  note_behind(places, askers.behind);
  for (const auto& late : ballot.late) note_behind(late.ranks.common(places), askers.behind + late.behind);
  if (ballot.leaving) leave(places);
  forget_what_all_have_heard();
}

void Coordinator::ask(Askers& askers, DecisionId id) {
  const auto known = remembered_.find(id);
  if (known == remembered_.end()) refuse(askers.places, fmt::format("no decision has the number {}", id));
  const auto entry = note_asked(known->second.name(), askers);
  add_asking(entry->second.askings, askers.places, id);
  settle(entry);
}

void Coordinator::ask(Askers& askers, const Request& request) {
  if (request.name.empty()) refuse(askers.places, "a request without a name");
  const auto entry = note_asked(request.name, askers);
  add_asking(entry->second.askings, askers.places, request);
  const bool joins = request.operation == Operation::join;
  entry->second.joins = entry->second.joins || joins;
  settle(entry);
  if (joins) join(askers.places, request);
}

/// Whether all ask, for nothing but what they have asked for before, and none of it is pending.
bool Coordinator::all_repeat(const RankSet& places, const Ballot& ballot) const {
  return places == everybody_ && pending_.empty() && joined_.empty() && ballot.requests.empty() &&
         !ballot.leaving && std::all_of(ballot.repeats.begin(), ballot.repeats.end(), [this](DecisionId id) {
           return schedule_.knows(id);
         });
}

Coordinator::PendingByName::iterator Coordinator::note_asked(const std::string& name, Askers& askers) {
  const auto entry = pending(name, askers);
  if (entry->second.asked.intersects(askers.places))
    refuse(askers.places, fmt::format("it asks twice for '{}'", name));
  entry->second.asked.add(askers.places);
  return entry;
}

Coordinator::PendingByName::iterator Coordinator::pending(const std::string& name, Askers& askers) {
  const auto [entry, fresh] = pending_.try_emplace(name);
  Pending& pending = entry->second;
  if (fresh) {
    pending.age = ages_.emplace(age_at(askers.since), askers.since, name);
  } else if (askers.since >= pending.since) {
    askers.behind = std::max(askers.behind, askers.since - pending.since);
    return entry;
  } else {
    // Rank 0's own asking is added at once, and messages wait until it receives them.
    note_behind(pending.asked, pending.since - askers.since);
    ages_.splice(age_at(askers.since), ages_, pending.age);
    pending.age->first = askers.since;
  }
  pending.since = askers.since;
  return entry;
}

/// Others have waited for them for so long.
void Coordinator::note_behind(const RankSet& places, Clock::duration time) {
  if (time <= Clock::duration::zero()) return;
  for (const auto& [first, end] : places.runs()) {
    for (auto behind = behind_.begin() + first; behind != behind_.begin() + end; ++behind)
      *behind = std::max(*behind, time);
  }
}

/// The place of one that was first asked for then.
Coordinator::Ages::iterator Coordinator::age_at(TimePoint since) {
  auto at = ages_.end();
  while (at != ages_.begin() && std::prev(at)->first > since) --at;
  return at;
}

void Coordinator::join(const RankSet& places, const Request& request) {
  joined_.add(places);
  last_joined_ = places.front();
  divide_by_initial_size_ = request.divide_by_initial_size;
  settle_all();
}

void Coordinator::leave(const RankSet& places) {
  left_.add(places);
  settle_all();
}

void Coordinator::settle_all() {
  std::vector<std::string> names;
  for (const auto& [since, name] : ages_) names.push_back(name);
  for (const auto& name : names) settle(pending_.find(name));
}

void Coordinator::settle(PendingByName::iterator entry) {
  Pending& pending = entry->second;
  if (pending.ready) return;
  if (complete(pending)) {
    pending.ready = true;
    ready_.push_back({entry->first, 0});
  } else if (const RankSet gone = left_.without(pending.asked); !gone.empty()) {
    if (pending.joins) joined_ = {};
    for (const auto& [start, end] : gone.runs())
      missed_.insert(missed_.end(), members_.begin() + start, members_.begin() + end);
    const int first = members_[static_cast<std::size_t>(gone.front())];
    const OneSided tensor{entry->first, step_of(pending), ranks_of(pending.asked, members_), {first}};
    failed_.push_back(failure(
        any_asked(pending), Code::aborted,
        fmt::format("rank {} has left the job without submitting it\n{}", first, hint_for_left(tensor))));
    erase(entry);
  }
}

bool Coordinator::complete(const Pending& pending) const {
  if (pending.asked == everybody_) return true;
  if (pending.joins || joined_.empty()) return false;
  return everybody_.without(pending.asked).without(joined_).empty();
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
                        [&](const auto& one) { return one.repeat != 0 || !pending_.at(one.name).joins; });
  verdict.items.reserve(ready.size() + failed_.size());
  for (const auto& one : ready) verdict.items.push_back(decide(one, failing));
  for (auto& decision : failed_) verdict.items.push_back({0, std::move(decision)});
  failed_.clear();
  verdict.end = left_ == everybody_ && !ended_;
  ended_ = ended_ || verdict.end;
  verdict.trace = std::exchange(command_, TraceCommand::none);
  verdict.fuse_up_to = std::exchange(fuse_up_to_, 0);
  verdict.left = std::exchange(told_left_, {});
  const bool commands =
      verdict.trace != TraceCommand::none || verdict.fuse_up_to != 0 || !verdict.left.empty();
  if (verdict.items.empty() && !verdict.end && !commands) return std::nullopt;
  ++verdicts_;
  lock(verdict);
  return verdict;
}

Verdict::Item Coordinator::decide(const Ready& ready,
                                  const std::unordered_map<std::string, std::string>& failing) {
  const auto failed = [&](const Request& request) -> std::optional<Decision> {
    const auto why = failing.find(request.bundle);
    if (why == failing.end()) return std::nullopt;
    return failure(request, Code::mismatch, fmt::format("its group failed: {}", why->second));
  };
  if (ready.repeat != 0) {
    auto decision =
        failing.empty() ? std::nullopt : failed(*remembered_.at(ready.repeat).voices.front().request);
    return decision ? Verdict::Item{0, *std::move(decision)} : repeat(ready.repeat);
  }
  const auto entry = pending_.find(ready.name);
  Verdict::Item item;
  if (auto decision = failed(any_asked(entry->second))) {
    Decision own = decide_anew(entry->second);  // what is wrong with it, if there is something
    item.decision = own.status.ok() ? *std::move(decision) : std::move(own);
  } else {
    item = decide(entry->second);
  }
  erase(entry);
  return item;
}

/// Locks the order of decisions if they have a rhythm, and nothing is under way that does not belong to it.
void Coordinator::lock(Verdict& verdict) {
  if (!locks_) return;
  for (const auto& item : verdict.items) {
    if (item.repeat == 0) {
      steady_state_.disturb();
    } else {
      steady_state_.repeat(item.repeat);
    }
  }
  if (!steady_state_.is_steady() || !joined_.empty() || !left_.empty() || verdict.trace != TraceCommand::none)
    return;
  std::vector<DecisionId> order = steady_state_.order();
  const std::unordered_set<DecisionId> ids(order.begin(), order.end());
  const bool all =
      std::all_of(pending_.begin(), pending_.end(),
                  [&](const auto& named) { return fits(named.second, ids); }) &&
      std::all_of(order.begin(), order.end(), [this](DecisionId id) { return schedule_.knows(id); });
  if (!all) return;
  verdict.lock = std::move(order);
  verdict.made = steady_state_.made();
  locked_by_ = verdicts_;
  steady_state_.begin_lock();
  pending_.clear();
  ages_.clear();
}

bool Coordinator::fits(const Pending& pending, const std::unordered_set<DecisionId>& ids) const {
  return std::all_of(pending.askings.begin(), pending.askings.end(),
                     [&](const Asking& asking) { return ids.contains(asking.repeat); });
}

void Coordinator::follow_lock(const std::vector<DecisionId>& decided,
                              const std::vector<Clock::duration>& behind) {
  for (std::size_t place = 0; place < behind_.size(); ++place)
    behind_[place] = std::max(behind_[place], behind[place]);
  for (const auto id : decided) note_repeated(id);
}

std::unordered_map<std::string, std::string> Coordinator::failing_bundles() const {
  std::unordered_map<std::string, std::string> failing;
  for (const auto& [name, repeat] : ready_) {
    if (repeat != 0) continue;
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
  const auto& askings = pending.askings;
  return askings.size() == 1 && pending.asked == everybody_ && schedule_.knows(askings.front().repeat);
}

Verdict::Item Coordinator::decide(const Pending& pending) {
  if (repeated(pending)) {
    return repeat(pending.askings.front().repeat);
  }
  return number(decide_anew(pending), pending);
}

Verdict::Item Coordinator::repeat(DecisionId id) {
  note_repeated(id);
  return {id, {}};
}

void Coordinator::note_repeated(DecisionId id) {
  schedule_.use(id);
  Remembered& remembered = remembered_.at(id);
  remembered.rename();
  count_step(id, ++remembered.times);
}

void Coordinator::Remembered::rename() {
  for (auto& voice : voices) {
    auto next = next_ordinal(voice.request->name);
    if (!next) return;
    auto renamed = std::make_shared<Request>(*voice.request);
    renamed->name = *std::move(next);
    voice.request = std::move(renamed);
  }
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
  for (const auto& asking : pending.askings) {
    if (asking.repeat != 0) times = std::max(times, remembered_.at(asking.repeat).times);
  }
  return times == 0 ? 0 : times + 1;
}

Decision Coordinator::decide_anew(const Pending& pending) const {
  if (pending.asked != everybody_) return decide_with_stand_ins(pending);
  Decision decision = agree(voices(pending), members_);
  if (pending.joins && decision.status.ok() && !joined_.empty())
    decision.request.root = members_[static_cast<std::size_t>(last_joined_)];
  return decision;
}

Decision Coordinator::decide_with_stand_ins(const Pending& pending) const {
  const Request& like = any_asked(pending);
  const RankSet absent = everybody_.without(pending.asked);
  std::vector<Voice> all = voices(pending);
  const bool failed = std::any_of(all.begin(), all.end(),
                                  [](const Voice& voice) { return !voice.request->failed_with.empty(); });
  if (failed) return agree(all, members_);
  auto substitute = stand_in(like);
  if (!substitute) {
    return failure(
        like, Code::mismatch,
        fmt::format("{}{} is not supported with join, and {} joined already", name(like.operation),
                    like.operation == Operation::allreduce ? " of this kind with a prescale factor" : "",
                    describe_ranks(ranks_of(absent, members_))));
  }
  all.push_back({absent, std::make_shared<const Request>(*std::move(substitute))});
  sort_by_place(all);
  Decision decision = agree(all, members_);
  if (!decision.status.ok()) return decision;
  decision.joined = absent.list();
  if (!divide_by_initial_size_) decision.divisor -= absent.size();
  return decision;
}

Verdict::Item Coordinator::number(Decision decision, const Pending& pending) {
  Verdict::Item item{0, std::move(decision)};
  if (pending.joins) joined_ = {};
  if (!Schedule::keeps(item.decision)) return item;
  Remembered remembered{voices(pending)};
  auto& all = remembered.voices;
  const bool alike = std::all_of(all.begin(), all.end(),
                                 [&](const Voice& voice) { return *voice.request == *all.front().request; });
  if (alike) {
    all.resize(1);
    all.front().places = everybody_;
  }
  const DecisionId* former = schedule_.find(item.decision.request.name);
  if (former != nullptr) remembered.times = remembered_.at(*former).times + 1;
  remembered.rename();
  const auto [id, forgotten] = schedule_.learn(item.decision);
  remembered_.emplace(id, std::move(remembered));
  if (forgotten != 0) forgotten_.emplace_back(verdicts_ + 1, forgotten);
  return item;
}

std::vector<Voice> Coordinator::voices(const Pending& pending) const {
  std::vector<Voice> all;
  for (const auto& asking : pending.askings) spell(asking, all);
  sort_by_place(all);
  return all;
}

/// Adds what it means in full.
void Coordinator::spell(const Asking& asking, std::vector<Voice>& voices) const {
  if (asking.repeat == 0) {
    voices.push_back({asking.who, asking.request});
    return;
  }
  for (const auto& former : remembered_.at(asking.repeat).voices) {
    RankSet places = former.places.common(asking.who);
    if (!places.empty()) voices.push_back({std::move(places), former.request});
  }
}

const Request& Coordinator::any_asked(const Pending& pending) const {
  const Asking& asking = pending.askings.front();
  if (asking.repeat == 0) return *asking.request;
  const auto& voices = remembered_.at(asking.repeat).voices;
  return *std::find_if(voices.begin(), voices.end(), [&](const Voice& voice) {
            return voice.places.contains(asking.who.front());
          })->request;
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
  const auto entry = pending_.find(remembered_.at(id).name());
  if (entry == pending_.end()) return;
  std::vector<Asking> askings;
  for (auto& asking : entry->second.askings) {
    if (asking.repeat != id) {
      askings.push_back(std::move(asking));
      continue;
    }
    std::vector<Voice> voices;
    spell(asking, voices);
    for (auto& voice : voices) askings.push_back({std::move(voice.places), 0, std::move(voice.request)});
  }
  entry->second.askings = std::move(askings);
}

std::vector<Coordinator::Waiting> Coordinator::waiting(TimePoint since) const {
  std::vector<Waiting> all;
  for (const auto& [asked, name] : ages_) {
    if (asked > since) break;
    const Pending& pending = pending_.at(name);
    if (pending.ready) continue;
    Waiting waiting{name, describe(any_asked(pending)), step_of(pending), pending.since, {}, {}, {}};
    waiting.asked = ranks_of(pending.asked, members_);
    waiting.missing = ranks_of(everybody_.without(pending.asked), members_);
    all.push_back(std::move(waiting));
  }
  return all;
}

TimePoint Coordinator::oldest() const { return ages_.empty() ? TimePoint::max() : ages_.front().first; }

}  // namespace hora
