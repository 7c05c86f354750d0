// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/job_log.h"

#include "runner/streams/relay.h"

#include <fmt/format.h>

namespace hora::hrun {

void JobLog::print(std::string_view text) {
  if (!text.empty()) relay_.print(text);
}

void JobLog::say(std::string_view what) {
  if (options_.verbose) print(fmt::format("hrun: {}\n", what));
}

std::string JobLog::name(int rank) const { return fmt::format("rank {} {}", rank, process(rank)); }

std::string JobLog::process(int rank) const {
  const RankSummary& known = summary_.ranks[static_cast<std::size_t>(rank)];
  const std::string host = options_.shares.size() == 1 ? "" : " on " + known.host;
  return fmt::format("(pid {}{})", known.pid, host);
}

std::string JobLog::on(int host) const {
  return options_.shares.size() == 1 ? "" : " on " + options_.shares[static_cast<std::size_t>(host)].host;
}

std::string JobLog::describe_loss(int host, const Ending& why) const {
  const HostShare& lost = options_.shares[static_cast<std::size_t>(host)];
  const int first = lost.placements.front().rank;
  const int last = lost.placements.back().rank;
  return fmt::format("host {} is lost, and with it rank{} {}{}: {}", lost.host, last > first ? "s" : "",
                     first, last > first ? fmt::format(" to {}", last) : "", why.how);
}

}  // namespace hora::hrun
