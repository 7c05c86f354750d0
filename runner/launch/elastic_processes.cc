// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/elastic_processes.h"

#include <algorithm>
#include <utility>

namespace hora::hrun {

ElasticProcesses::ElasticProcesses(const std::vector<HostShare>& shares) {
  for (const auto& share : shares) {
    for (const auto& placement : share.placements) {
      ElasticProcess& process = processes_.emplace_back();
      process.info.id = first_member(placement.rank);
      process.info.host = placement.host;
      process.info.slot = placement.local_rank;
      ranks_[process.info.id] = placement.rank;
    }
  }
}

std::vector<int> ElasticProcesses::hosts() const {
  std::vector<int> hosts;
  for (const auto& process : processes_) hosts.push_back(process.info.host);
  return hosts;
}

elastic::MemberId ElasticProcesses::replace(int rank) {
  ElasticProcess next{.info = at(rank).info, .late = true};
  next.info.id = ranks_.rbegin()->first + 1;
  ranks_[next.info.id] = rank;
  at(rank) = std::move(next);
  return at(rank).info.id;
}

std::vector<int> ElasticProcesses::lose_host(int host) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    ElasticProcess& process = at(rank);
    if (process.info.host != host || std::exchange(process.gone, true) || process.finished) continue;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> ElasticProcesses::welcome(const elastic::GenerationRecord& record) {
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

bool ElasticProcesses::any_has_joined() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process.takes_part() && process.joined; });
}

}  // namespace hora::hrun
