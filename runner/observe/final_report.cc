// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/final_report.h"

#include "core/launcher/news.h"
#include "runner/streams/relay.h"
#include "runner/streams/standard_input.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace hora::hrun {
namespace {

/// The other ranks and hosts that ended by themselves, without telling why: a rank that was done too early,
/// and those that failed in turn.
std::string describe_other_endings(const JobEnd& end) {
  constexpr std::size_t kMost = 8;
  const Failure& first = end.state.cause.failure();
  std::string lost;
  std::map<int, std::pair<std::string, std::string>> endings;
  for (const auto& other : end.state.endings) {
    if (other.rank == first.rank && other.host == first.host) continue;
    if (other.rank < 0) {
      lost += fmt::format("hrun: {}\n", end.log.describe_loss(other.host, other.ending));
    } else if (other.ending.exit_code == 0 || end.reports.of(other.rank) == nullptr) {
      endings[other.rank] = {end.log.on(other.host), other.ending.how};
    }
  }
  return lost + describe_endings(endings, kMost);
}

std::string advice_for(int rank, const JobEnd& end) {
  const EndReport* report = end.reports.of(rank);
  const std::string advice = end.input.advice(
      rank, report != nullptr ? report->error : end.relay.errors(rank).last_line(kMostLastLine));
  return advice.empty() ? "" : fmt::format("hrun: {}\n", advice);
}

/// The last lines of a rank on stderr, unless its trace is there.
std::string last_errors_of(int rank, const JobEnd& end) {
  const auto& last = end.relay.errors(rank).lines();
  if (last.empty() || end.reports.has_shown(rank)) return "";
  std::string text = "hrun: the last it wrote to stderr:\n";
  for (const auto& line : last) text += "  " + line + "\n";
  return text;
}

/// The summary's text on the first cause, which this marks.
std::string blame(const Failure& first, const JobLog& log, JobSummary& summary) {
  if (first.rank < 0) return log.describe_loss(first.host, first.ending);
  RankSummary& rank = summary.ranks[static_cast<std::size_t>(first.rank)];
  rank.first_cause = true;
  return fmt::format("rank {} (pid {} on {}) {}", rank.rank, rank.pid, rank.host, first.ending.how);
}

}  // namespace

std::string final_report(const JobEnd& end, const JobSummary& summary) {
  const std::string dumps = end.reports.describe_dumps(summary);
  if (!end.state.cause.known()) {
    const std::string text = end.reports.describe(-1, summary) + dumps;
    return end.state.started && !text.empty() ? "\n" + text : "";
  }
  const Failure& first = end.state.cause.failure();
  if (first.rank < 0) {
    return fmt::format("\nhrun: {}\n{}{}{}", end.log.describe_loss(first.host, first.ending),
                       end.reports.describe(-1, summary), describe_other_endings(end), dumps);
  }
  return fmt::format("\nhrun: {} failed first: it {}\n", end.log.name(first.rank), first.ending.how) +
         end.reports.describe(first.rank, summary) + advice_for(first.rank, end) +
         describe_other_endings(end) + dumps + last_errors_of(first.rank, end);
}

void complete(JobSummary& summary, const JobEnd& end, int exit_code) {
  for (auto& rank : summary.ranks) {
    rank.output_lines = end.relay.output(rank.rank).count();
    rank.error_lines = end.relay.errors(rank.rank).count();
    rank.last_words = end.relay.errors(rank.rank).last_line(kMostLastLine);
    if (const EndReport* report = end.reports.of(rank.rank)) {
      rank.reason = report->error;
      rank.where = report->where;
    }
  }
  summary.exit_code = exit_code;
  if (end.state.cause.known()) summary.first_cause = blame(end.state.cause.failure(), end.log, summary);
}

}  // namespace hora::hrun
