// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hosts.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace hora {

std::pair<std::size_t, std::size_t> Hosts::find(int rank) const {
  for (std::size_t host = 0; host < ranks.size(); ++host) {
    const auto found = std::find(ranks[host].begin(), ranks[host].end(), rank);
    if (found != ranks[host].end()) return {host, static_cast<std::size_t>(found - ranks[host].begin())};
  }
  throw Error(Code::internal, fmt::format("rank {} is on none of {} hosts", rank, ranks.size()));
}

std::size_t Hosts::least() const {
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  return std::min_element(ranks.begin(), ranks.end(), fewer)->size();
}

bool Hosts::in_rank_order() const {
  int next = 0;
  for (const auto& host : ranks) {
    for (const int rank : host) {
      if (rank != next++) return false;
    }
  }
  return true;
}

Hosts hosts_of(std::vector<std::vector<int>> ranks, int rank) {
  Hosts hosts{std::move(ranks)};
  std::tie(hosts.own, hosts.place) = hosts.find(rank);
  return hosts;
}

std::vector<std::vector<int>> spread(const Hosts& hosts, std::span<const int> members) {
  std::map<std::size_t, std::size_t> index_of;  // of a host, in what is returned
  std::vector<std::vector<int>> smaller;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [at, is_new] = index_of.try_emplace(hosts.find(members[i]).first, smaller.size());
    if (is_new) smaller.emplace_back();
    smaller[at->second].push_back(static_cast<int>(i));
  }
  return smaller;
}

}  // namespace hora
