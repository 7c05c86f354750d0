// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/job_ranks.h"

#include "runner/streams/standard_input.h"

#include <fmt/format.h>

#include <chrono>

namespace hora::hrun {
namespace {

void add_to(JobSummary& summary, const RankPlacement& placement) {
  RankSummary& rank = summary.ranks.emplace_back();
  rank.rank = placement.rank;
  rank.host = summary.hosts[static_cast<std::size_t>(placement.host)];
}

/// The facts that are known of the ranks before they are started.
JobSummary summary_of(const Options& options) {
  JobSummary summary;
  summary.command = options.command;
  for (const auto& share : options.shares) summary.hosts.push_back(share.host);
  for (const auto& share : options.shares) {
    for (const auto& placement : share.placements) add_to(summary, placement);
  }
  return summary;
}

}  // namespace

JobRanks::JobRanks(const Options& options)
    : relay_(options), summary_(summary_of(options)), log_(options, summary_, relay_) {}

void JobRanks::add(const JobHost& host, const StandardInput& input) {
  for (const int rank : host.numbers) {
    relay_.add(host.output(rank), host.errors(rank), input.converses_with(rank));
  }
}

void JobRanks::expect(const RankPlacement& placement) {
  if (placement.rank == static_cast<int>(summary_.ranks.size())) {
    add_to(summary_, placement);
    relay_.add(no_output(), no_output());
  }
  of(placement.rank).begin(0);  // if it cannot be started, that is not the end of the process before
  end_reports_.begin(placement.rank);
  expected_.insert(placement.rank);
}

bool JobRanks::begin(int rank, const JobHost& host, int pid) {
  of(rank).begin(pid);
  log_.say(fmt::format("rank {} is process {}{}", rank, pid, log_.on_host_of(rank)));
  if (expected_.erase(rank) == 0) return false;
  relay_.replace(rank, host.output(rank), host.errors(rank));
  return true;
}

void JobRanks::end(int rank, const Ending& ending, Clock::duration ago, bool told) {
  log_.say(fmt::format("rank {}{} {}", rank, log_.on_host_of(rank), ending.how));
  of(rank).end(ending, std::chrono::duration_cast<WallTime::duration>(ago), told);
}

RankEnd JobRanks::news_of(int rank, const Ending& ending) const {
  return {rank, ending.signal != 0, ending.how, relay_.errors(rank).last_line(kMostLastLine)};
}

}  // namespace hora::hrun
