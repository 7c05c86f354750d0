// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/streams.h"

#include <algorithm>
#include <set>
#include <string>

namespace hora::tcp {
namespace {

/// Between two hosts. Where a network limits what one connection gets, as clouds do, and hosts with several
/// cables, which keep each connection on one of them, it takes several to fill it; elsewhere they cost
/// nothing.
constexpr std::size_t kBetweenHosts = 4;

}  // namespace

std::size_t streams_between(const Config& config, const std::vector<Member>& members) {
  if (config.tcp_streams > 0) return static_cast<std::size_t>(config.tcp_streams);
  std::set<std::string> hosts;
  for (const auto& member : members) hosts.insert(member.host);
  if (hosts.size() == 1) return 1;
  const std::size_t ranks_of_a_host = (members.size() + hosts.size() - 1) / hosts.size();
  return std::max<std::size_t>(1, kBetweenHosts / ranks_of_a_host);  // each rank has connections of its own
}

}  // namespace hora::tcp
