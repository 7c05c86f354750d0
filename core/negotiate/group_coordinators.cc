// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/group_coordinators.h"

#include "core/comm/world.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {
namespace {

[[noreturn]] void refuse_ballot(const Ballot& ballot, const std::string& what) {
  throw Error(Code::internal,
              fmt::format("bad ballot from {}: {}", describe_ranks(ballot.ranks.list()), what));
}

}  // namespace

void GroupCoordinators::add_group(int group, const std::vector<int>& members, std::size_t capacity,
                                  bool locks) {
  next_group_ = group + 1;
  groups_.emplace(group, Group{Coordinator(members, capacity, locks), RankSet(members).without(RankSet(0))});
}

bool GroupCoordinators::add(const Ballot& ballot, TimePoint now) {
  if (ballot.report != Report::none) {
    reports_.push_back({ballot.ranks.front(), ballot.report, ballot.content});
    return false;  // a report has no requests; it may come after its sender has left
  }
  const auto found = groups_.find(ballot.group);
  if (found == groups_.end()) {
    if (ballot.group < next_group_) return false;  // the group was removed while the ballot travelled
    refuse_ballot(ballot, fmt::format("there is no group {}", ballot.group));
  }
  Group& group = found->second;
  group.undecided = true;
  if (ballot.group == kWorld) {
    group.coordinator.add(ballot.ranks, ballot, now);
    if (ballot.leaving) note_left(ballot.ranks, now);
    return false;
  }
  group.coordinator.add(places_in(group, ballot), ballot, now);
  world().disturb();
  return true;
}

/// The places of the ballot's ranks in its group. The group is not the world.
RankSet GroupCoordinators::places_in(const Group& group, const Ballot& ballot) {
  const auto& members = group.coordinator.members();
  const auto place = std::lower_bound(members.begin(), members.end(), ballot.ranks.front());
  if (ballot.ranks.size() != 1 || place == members.end() || *place != ballot.ranks.front())
    refuse_ballot(ballot, fmt::format("it is not in group {}", ballot.group));
  return RankSet(static_cast<int>(place - members.begin()));
}

/// Notes that ranks have left. When all ranks have left, the job ends, so nothing is told about the last
/// ones.
void GroupCoordinators::note_left(const RankSet& ranks, TimePoint now) {
  leaving_.left.add(ranks);
  leaving_.since = std::min(leaving_.since, now);
  if (leaving_.left.size() == size_) {
    leaving_ = {};
  } else {
    world().tell_left(ranks);
  }
}

std::optional<Verdict> GroupCoordinators::decide() {
  for (auto& [number, group] : groups_) {
    if (!std::exchange(group.undecided, false)) continue;
    auto verdict = group.coordinator.decide();
    if (!verdict) continue;
    const auto missed = group.coordinator.take_missed();
    missed_.insert(missed_.end(), missed.begin(), missed.end());
    verdict->group = number;
    if (verdict->end && number != kWorld) tell_world().tell_ended(number);
    return verdict;
  }
  return std::nullopt;
}

bool GroupCoordinators::is_undecided() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& named) { return named.second.undecided; });
}

void GroupCoordinators::decide_all_again() {
  for (auto& [number, group] : groups_) group.undecided = true;
}

Coordinator& GroupCoordinators::tell_world() {
  groups_.at(kWorld).undecided = true;
  return world();
}

std::vector<TrainingStep> GroupCoordinators::take_steps() {
  std::vector<TrainingStep> steps;
  for (auto& [number, group] : groups_) steps = group.coordinator.take_steps();  // the world comes last
  return steps;
}

std::vector<WaitingTensor> GroupCoordinators::waiting(TimePoint since) const {
  std::vector<WaitingTensor> all;
  for (const auto& [number, group] : groups_) {
    for (auto& waiting : group.coordinator.waiting(since)) {
      all.push_back(std::move(waiting));
      all.back().ranks = number == kWorld ? "" : describe_ranks(group.coordinator.members());
    }
  }
  return all;
}

RankSet GroupCoordinators::ranks_in(int group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? RankSet() : RankSet(found->second.coordinator.members());
}

TimePoint GroupCoordinators::oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& [number, group] : groups_) oldest = std::min(oldest, group.coordinator.oldest());
  return oldest;
}

}  // namespace hora
