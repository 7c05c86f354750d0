// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/job_log.h"

#include "core/comm/world.h"
#include "runner/streams/relay.h"

#include <fmt/format.h>

namespace hora::hrun {

void JobLog::print(std::string_view text) {
  if (!text.empty()) relay_.print(text);
}

void JobLog::say(std::string_view what) {
  if (options_.verbose) print(fmt::format("hrun: {}\n", what));
}

void JobLog::print_of(int rank, std::string_view what) {
  print(fmt::format("hrun: {} {}\n", name(rank), what));
}

void JobLog::print_loss(int host, const Ending& why) {
  print(fmt::format("hrun: {}\n", describe_loss(host, why)));
}

std::string JobLog::name(int rank) const { return fmt::format("rank {} {}", rank, process(rank)); }

std::string JobLog::process(int rank) const {
  const RankSummary& known = summary_.ranks[static_cast<std::size_t>(rank)];
  const std::string host = on_host_of(rank);
  return known.pid == 0 ? fmt::format("(not started{})", host) : fmt::format("(pid {}{})", known.pid, host);
}

std::string JobLog::on(int host) const {
  return summary_.hosts.size() == 1 ? "" : " on " + summary_.hosts[static_cast<std::size_t>(host)];
}

std::string JobLog::on_host_of(int rank) const {
  return summary_.hosts.size() == 1 ? "" : " on " + summary_.ranks[static_cast<std::size_t>(rank)].host;
}

std::string JobLog::describe_loss(int host, const Ending& why) const {
  const std::string& lost = summary_.hosts[static_cast<std::size_t>(host)];
  std::vector<int> ranks;
  for (const auto& rank : summary_.ranks) {
    if (rank.host == lost) ranks.push_back(rank.rank);
  }
  return fmt::format("host {} is lost, and with it {}: {}", lost, describe_ranks(ranks), why.how);
}

}  // namespace hora::hrun
