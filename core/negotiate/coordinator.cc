// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include "core/comm/world.h"
#include "core/negotiate/agreement.h"
#include "core/negotiate/hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {

Coordinator::Coordinator(std::vector<int> members, std::size_t capacity, bool locks)
    : members_(std::move(members)),
      everybody_(0, static_cast<int>(members_.size())),
      numbered_(everybody_, capacity),
      absences_(everybody_),
      steps_(members_.size()),
      lock_policy_(locks) {}

void Coordinator::refuse(const RankSet& places, const std::string& what) const {
  throw Error(Code::internal,
              fmt::format("bad ballot from {}: {}", describe_ranks(ranks_of(places, members_)), what));
}

void Coordinator::add(const RankSet& places, const Ballot& ballot, TimePoint now) {
  if (absences_.any_left(places)) refuse(places, "it has left already");
  if (ballot.heard > numbered_.verdicts()) refuse(places, "it has not heard that many verdicts");
  numbered_.note_heard(places, ballot.heard);
  if (lock_policy_.is_too_late(ballot.heard)) return;
  if (all_repeat(places, ballot)) {
    for (const auto id : ballot.repeats) ready_.push_back({{}, id});
    for (const auto& late : ballot.late) steps_.note_behind(late.ranks, late.behind);
    return drop_what_all_know_is_forgotten();
  }
  Askers askers{places, now - ballot.age};
  for (const auto id : ballot.repeats) ask(askers, id);
  for (const auto& request : ballot.requests) ask(askers, request);
  steps_.note_behind(places, askers.behind);
  for (const auto& late : ballot.late)
    steps_.note_behind(late.ranks.common(places), askers.behind + late.behind);
  if (ballot.leaving) {
    absences_.leave(places);
    if (ballot.stays_in_job) stay_.add(places);
    settle_all();
  }
  drop_what_all_know_is_forgotten();
}

void Coordinator::ask(Askers& askers, DecisionId id) {
  const std::string* name = numbered_.name_of(id);
  if (name == nullptr) refuse(askers.places, fmt::format("no decision has the number {}", id));
  const auto entry = note_asked(*name, askers);
  add_asking(entry->second.askings, askers.places, id);
  settle(entry);
}

void Coordinator::ask(Askers& askers, const Request& request) {
  if (request.name.empty()) refuse(askers.places, "a request without a name");
  const auto entry = note_asked(request.name, askers);
  PendingTensor& pending = entry->second;
  add_asking(pending.askings, askers.places, request);
  if (is_of_some(request))
    pending.needed = places_of(request.ranks, members_);  // equal in all that have this name
  const bool joins = request.operation == Operation::join;
  pending.joins = pending.joins || joins;
  settle(entry);
  if (!joins) return;
  absences_.join(askers.places, request);
  settle_all();
}

PendingTensors::Entry Coordinator::note_asked(const std::string& name, Askers& askers) {
  const auto [entry, behind] = pending_.find_or_add(name, askers.since);
  RankSet& asked = entry->second.asked;
  if (asked.intersects(askers.places)) refuse(askers.places, fmt::format("it asks twice for '{}'", name));
  if (asked.empty()) entry->second.needed = everybody_;
  askers.behind = std::max(askers.behind, behind);
  // A request of rank 0 is added at once, but messages wait until rank 0 receives them.
  if (behind < Clock::duration::zero()) steps_.note_behind(asked, -behind);
  asked.add(askers.places);
  return entry;
}

/// Whether all members ask, only for decisions that they have asked for before, and none of these is pending.
bool Coordinator::all_repeat(const RankSet& places, const Ballot& ballot) const {
  return places == everybody_ && pending_.empty() && !absences_.any_joined() && ballot.requests.empty() &&
         !ballot.leaving && std::all_of(ballot.repeats.begin(), ballot.repeats.end(), [this](DecisionId id) {
           return numbered_.knows(id);
         });
}

/// Pending tensors that were asked for by a forgotten number get the full requests instead.
void Coordinator::drop_what_all_know_is_forgotten() {
  numbered_.drop_forgotten([this](DecisionId id) {
    const auto entry = pending_.find(*numbered_.name_of(id));
    if (entry == pending_.end()) return;
    auto& askings = entry->second.askings;
    askings = numbered_.spell_out(std::move(askings), id);
  });
}

/// Finds out whether the pending tensor can be decided, or can never be.
void Coordinator::settle(PendingTensors::Entry entry) {
  PendingTensor& pending = entry->second;
  if (pending.ready) return;
  const bool lacks_some = pending.asked.size() < pending.needed.size();
  if (lacks_some && !absences_.any_joined() && !absences_.any_left()) return;  // the usual case
  const RankSet missing = pending.needed.without(pending.asked);
  if (absences_.complete(missing, pending.joins)) {
    pending.ready = true;
    ready_.push_back({entry->first, 0});
  } else if (const RankSet gone = absences_.left_of(missing); !gone.empty()) {
    fail_without(gone, entry);
  }
}

void Coordinator::settle_all() {
  std::vector<std::string> names;
  for (const auto& [since, name] : pending_.by_age()) names.push_back(name);
  for (const auto& name : names) settle(pending_.find(name));
}

/// Fails the tensor, because the members `gone` have left without asking for it.
void Coordinator::fail_without(const RankSet& gone, PendingTensors::Entry entry) {
  const auto& [name, pending] = *entry;
  if (pending.joins) absences_.end_join();
  const RankSet left = gone.without(stay_);
  const std::vector<int> missed = ranks_of(left, members_);
  missed_.insert(missed_.end(), missed.begin(), missed.end());
  const int first = ranks_of(left.empty() ? gone : left, members_).front();
  const OneSided tensor{name, numbered_.step_of(pending.askings), ranks_of(pending.asked, members_), {first}};
  failed_.push_back(failure(any_request(pending), Code::aborted,
                            left.empty() ? describe_removed(tensor) : describe_left(tensor)));
  pending_.erase(entry);
}

std::optional<Verdict> Coordinator::decide() {
  const BundleFailures failures = bundle_failures();
  auto ready = std::exchange(ready_, {});
  // A join ends after all operations in which its ranks take part without asking.
  std::stable_partition(ready.begin(), ready.end(),
                        [&](const auto& one) { return one.repeat != 0 || !pending_.at(one.name).joins; });
  Verdict verdict = std::exchange(next_, {});
  verdict.items.reserve(ready.size() + failed_.size());
  for (const auto& one : ready) verdict.items.push_back(decide(one, failures));
  for (auto& decision : failed_) verdict.items.push_back({0, std::move(decision)});
  failed_.clear();
  verdict.end = absences_.all_left() && !ended_;
  ended_ = ended_ || verdict.end;
  const bool commands = verdict.trace != TraceCommand::none || verdict.fuse_up_to != 0 ||
                        !verdict.left.empty() || !verdict.ended.empty();
  if (verdict.items.empty() && !verdict.end && !commands) return std::nullopt;
  numbered_.count_verdict();
  if (lock_policy_.lock(verdict, pending_, numbered_, absences_)) pending_.clear();
  return verdict;
}

BundleFailures Coordinator::bundle_failures() const {
  BundleFailures failures;
  for (const auto& [name, repeat] : ready_) {
    if (repeat != 0) continue;
    const PendingTensor& pending = pending_.at(name);
    const std::string& bundle = any_request(pending).bundle;
    if (bundle.empty() || repeated(pending)) continue;
    const Status status = decide_anew(pending).status;
    if (!status.ok()) failures.add(bundle, status.message);
  }
  for (const auto& decision : failed_) failures.add(decision.request.bundle, decision.status.message);
  return failures;
}

Verdict::Item Coordinator::decide(const Ready& ready, const BundleFailures& failures) {
  if (ready.repeat != 0) {
    auto failed =
        failures.empty() ? std::nullopt : failures.decision_for(numbered_.any_request(ready.repeat));
    return failed ? Verdict::Item{0, *std::move(failed)} : repeat(ready.repeat);
  }
  const auto entry = pending_.find(ready.name);
  Verdict::Item item;
  if (auto failed = failures.decision_for(any_request(entry->second))) {
    Decision own = decide_anew(entry->second);  // its own error comes before that of its bundle
    item.decision = own.status.ok() ? *std::move(failed) : std::move(own);
  } else {
    item = decide(entry->second);
  }
  pending_.erase(entry);
  return item;
}

Verdict::Item Coordinator::decide(const PendingTensor& pending) {
  if (repeated(pending)) return repeat(pending.askings.front().repeat);
  Verdict::Item item{0, decide_anew(pending)};
  if (pending.joins) absences_.end_join();
  if (Schedule::keeps(item.decision)) numbered_.learn(item.decision, numbered_.voices(pending.askings));
  return item;
}

Verdict::Item Coordinator::repeat(DecisionId id) {
  note_repeated(id);
  return {id, {}};
}

void Coordinator::note_repeated(DecisionId id) {
  steps_.count(id, numbered_.repeat(id), numbered_.schedule());
}

Decision Coordinator::decide_anew(const PendingTensor& pending) const {
  auto voices = numbered_.voices(pending.askings);
  if (const RankSet joined = pending.needed.without(pending.asked); !joined.empty())
    return agree_without(std::move(voices), joined, absences_.divide_by_initial_size(), members_);
  Decision decision = agree(voices, members_);
  if (pending.joins && decision.status.ok() && absences_.any_joined())
    decision.request.root = members_[static_cast<std::size_t>(absences_.last_joined())];
  return decision;
}

const Request& Coordinator::any_request(const PendingTensor& pending) const {
  return numbered_.any_request(pending.askings.front());
}

/// Whether all members ask by the same number, which is not forgotten.
bool Coordinator::repeated(const PendingTensor& pending) const {
  const auto& askings = pending.askings;
  return askings.size() == 1 && pending.asked == everybody_ && numbered_.knows(askings.front().repeat);
}

void Coordinator::follow_lock(const std::vector<DecisionId>& decided,
                              const std::vector<Clock::duration>& behind) {
  steps_.note_behind(behind);
  for (const auto id : decided) note_repeated(id);
}

std::vector<WaitingTensor> Coordinator::waiting(TimePoint since) const {
  std::vector<WaitingTensor> all;
  for (const auto& [asked, name] : pending_.by_age()) {
    if (asked > since) break;
    const PendingTensor& pending = pending_.at(name);
    if (pending.ready) continue;
    WaitingTensor waiting;
    waiting.name = name;
    waiting.what = describe(any_request(pending));
    waiting.step = numbered_.step_of(pending.askings);
    waiting.since = pending.since;
    waiting.asked = ranks_of(pending.asked, members_);
    waiting.missing = ranks_of(pending.needed.without(pending.asked), members_);
    all.push_back(std::move(waiting));
  }
  return all;
}

}  // namespace hora
