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

Bytes bytes_of(std::optional<Letter> letter) {
  if (letter->bytes.empty()) throw Error(std::move(letter->loss));
  return std::move(letter->bytes);
}

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Negotiator::Negotiator(Control& control, std::size_t capacity) : control_(control), capacity_(capacity) {
  add_group(kWorld, everybody(control.size()));
}

void Negotiator::add_group(int group, const std::vector<int>& members) {
  next_group_ = group + 1;
  if (std::binary_search(members.begin(), members.end(), control_.rank()))
    voters_.emplace(group, Voter(group, capacity_));
  if (control_.rank() == 0) chairs_.emplace(group, Chair{Coordinator(members, capacity_)});
}

void Negotiator::remove_group(int group) {
  voters_.erase(group);
  chairs_.erase(group);
}

void Negotiator::ask(int group, const std::vector<Request>& requests, TimePoint now) {
  const auto voter = voters_.find(group);
  if (voter != voters_.end() && !requests.empty()) cast(voter->second.ask(requests), now);
}

void Negotiator::leave(TimePoint now) {
  // The world's last: it ends the job.
  for (auto voter = voters_.rbegin(); voter != voters_.rend(); ++voter) cast(voter->second.leave(), now);
}

void Negotiator::command(TraceCommand command) {
  Chair& world = chairs_.at(kWorld);
  world.coordinator.command(command);
  world.undecided = true;
}

void Negotiator::inquire(int rank) {
  Verdict inquiry;
  inquiry.inquiry = true;
  control_.send(rank, encode(inquiry));
}

void Negotiator::report(Report kind, Bytes content) {
  Ballot ballot;
  ballot.report = kind;
  ballot.content = std::move(content);
  cast(ballot, {});
}

std::vector<Coordinator::Step> Negotiator::take_steps() {
  std::vector<Coordinator::Step> steps;
  for (auto& [group, chair] : chairs_)
    steps = chair.coordinator.take_steps();  // none keeps its own; the world is last
  return steps;
}

void Negotiator::cast(const Ballot& ballot, TimePoint now) {
  if (control_.rank() == 0) {
    count(0, ballot, now);
  } else {
    control_.send(0, encode(ballot));
  }
}

void Negotiator::count(int rank, const Ballot& ballot, TimePoint now) {
  if (ballot.report != Report::none) {
    reports_.push_back({rank, ballot.report, ballot.content});
    return;  // it travels alone, also after its sender has left
  }
  const auto chair = chairs_.find(ballot.group);
  if (chair == chairs_.end()) {
    if (ballot.group < next_group_) return;  // it was removed while the ballot was on its way
    throw Error(Code::internal,
                fmt::format("bad ballot from rank {}: there is no group {}", rank, ballot.group));
  }
  const auto& members = chair->second.coordinator.members();
  const auto place = std::lower_bound(members.begin(), members.end(), rank);
  if (place == members.end() || *place != rank)
    throw Error(Code::internal,
                fmt::format("bad ballot from rank {}: it is not in group {}", rank, ballot.group));
  chair->second.coordinator.add(static_cast<int>(place - members.begin()), ballot, now);
  chair->second.undecided = true;
}

std::vector<Negotiator::Heard> Negotiator::hear(TimePoint deadline) {
  std::vector<Heard> heard;
  if (control_.rank() != 0) {
    auto letter = control_.receive(deadline);
    if (letter) heard.push_back(apply(decode_verdict(bytes_of(std::move(letter)), control_.size())));
    return heard;
  }
  if (!collect(deadline)) return heard;
  for (auto& [group, chair] : chairs_) {
    if (!std::exchange(chair.undecided, false)) continue;
    auto verdict = chair.coordinator.decide();
    if (!verdict) continue;
    verdict->group = group;
    announce(*verdict, chair.coordinator.members());
    if (voters_.contains(group)) heard.push_back(apply(*verdict));
  }
  return heard;
}

/// Whatever has arrived goes into one verdict; waits only if there is nothing to say already.
bool Negotiator::collect(TimePoint deadline) {
  const auto undecided = [this] {
    return std::any_of(chairs_.begin(), chairs_.end(),
                       [](const auto& chair) { return chair.second.undecided; });
  };
  auto letter = control_.receive(undecided() ? kAtOnce : deadline);
  while (letter) {
    const auto [from, came] = std::pair(letter->from, letter->came);
    count(from, decode_ballot(bytes_of(std::move(letter)), control_.size()), came);
    letter = control_.receive(kAtOnce);
  }
  return undecided();
}

void Negotiator::announce(const Verdict& verdict, const std::vector<int>& members) {
  const Bytes bytes = encode(verdict);
  for (const int rank : members) {
    if (rank != 0) control_.send(rank, bytes);
  }
}

Negotiator::Heard Negotiator::apply(const Verdict& verdict) {
  if (verdict.inquiry) return {kWorld, {}, false, TraceCommand::none, true};
  const auto voter = voters_.find(verdict.group);
  if (voter == voters_.end())
    throw Error(Code::internal, fmt::format("bad verdict: this rank is not in group {}", verdict.group));
  return {verdict.group, voter->second.apply(verdict), verdict.end && verdict.group == kWorld, verdict.trace,
          false};
}

std::vector<Coordinator::Waiting> Negotiator::waiting(TimePoint since) const {
  std::vector<Coordinator::Waiting> all;
  for (const auto& [group, chair] : chairs_) {
    for (auto& waiting : chair.coordinator.waiting(since)) {
      all.push_back(std::move(waiting));
      all.back().ranks = group == kWorld ? "" : describe_ranks(chair.coordinator.members());
    }
  }
  return all;
}

TimePoint Negotiator::oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& [group, chair] : chairs_) oldest = std::min(oldest, chair.coordinator.oldest());
  return oldest;
}

}  // namespace hora
