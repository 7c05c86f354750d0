// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/elastic_processes.h"

#include <algorithm>
#include <utility>

namespace hora::hrun {

ElasticProcesses::ElasticProcesses(const std::vector<HostShare>& shares) {
  for (const auto& share : shares) {
    for (const auto& placement : share.placements) {
      processes_.emplace_back(first_member(placement.rank), placement, false);
      ranks_[first_member(placement.rank)] = placement.rank;
    }
  }
}

elastic::MemberId ElasticProcesses::add(const RankPlacement& placement) {
  const elastic::MemberId id = ranks_.rbegin()->first + 1;
  ranks_[id] = placement.rank;
  ElasticProcess process(id, placement, true);
  if (placement.rank == size()) {
    processes_.push_back(std::move(process));
  } else {
    const ElasticProcess& former = at(placement.rank);
    process.succeeds_member = former.was_member || former.succeeds_member;
    at(placement.rank) = std::move(process);
  }
  return id;
}

ElasticProcesses::Lost ElasticProcesses::lose_host(int host) {
  Lost lost;
  for (int rank = 0; rank < size(); ++rank) {
    ElasticProcess& process = at(rank);
    if (process.info.host != host || std::exchange(process.gone, true) || process.finished) continue;
    lost.ranks.push_back(rank);
    if (lost.member == 0 && process.is_member) lost.member = process.info.id;
    lost.any_counts = lost.any_counts || (!process.left_in_order() && process.counts());
  }
  return lost;
}

std::vector<int> ElasticProcesses::welcome(const elastic::GenerationRecord& record) {
  for (auto& process : processes_) process.is_member = record.rank_of(process.info.id) >= 0;
  std::vector<int> ranks;
  for (const auto& member : record.members) {
    if (!std::exchange(of(member.id).was_member, true)) ranks.push_back(rank_of(member.id));
  }
  return ranks;
}

std::vector<int> ElasticProcesses::let_latecomers_go() {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    ElasticProcess& process = at(rank);
    if (process.gone || process.was_member || process.finished) continue;
    process.out = "";
    ranks.push_back(rank);
  }
  return ranks;
}

int ElasticProcesses::left() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [](const auto& process) { return process.takes_part(); }));
}

int ElasticProcesses::staying() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [](const auto& process) { return process.stays(); }));
}

std::vector<int> ElasticProcesses::ranks_left() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const ElasticProcess& process = at(rank);
    const bool counts = process.counts() || process.succeeds_member;
    if (process.finished || (process.takes_part() && counts)) ranks.push_back(rank);
  }
  return ranks;
}

bool ElasticProcesses::any_member_stays() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process.is_member && process.stays(); });
}

std::vector<int> ElasticProcesses::stopped_aside() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const ElasticProcess& process = at(rank);
    const bool is_aside = (!process.joined || process.out) && !process.finished;
    if (process.stopped && is_aside && !process.gone && process.killed.empty()) ranks.push_back(rank);
  }
  return ranks;
}

bool ElasticProcesses::any_member_stays_on(const std::set<int>& hosts) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& process) {
    return process.is_member && process.stays() && hosts.contains(process.info.host);
  });
}

int ElasticProcesses::asking_to_go() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [](const auto& process) {
    return !process.gone && process.asks_to_go && !process.going;
  }));
}

bool ElasticProcesses::any_has_joined() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process.takes_part() && process.joined; });
}

}  // namespace hora::hrun
