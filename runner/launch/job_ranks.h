// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/news.h"
#include "runner/command_line/options.h"
#include "runner/launch/job_hosts.h"
#include "runner/observe/end_reports.h"
#include "runner/observe/job_log.h"
#include "runner/observe/summary.h"
#include "runner/streams/relay.h"

#include <chrono>
#include <set>
#include <string>

namespace hora::hrun {

class StandardInput;

/// The ranks of a job, as hrun tells of them: their output, their summary, and their own reports of their
/// ends. Ranks of an elastic job may be added. Not thread-safe.
class JobRanks {
 public:
  /// The ranks that are to be started. Refers to its argument.
  explicit JobRanks(const Options& options);

  [[nodiscard]] JobSummary& summary() { return summary_; }
  [[nodiscard]] const JobSummary& summary() const { return summary_; }
  [[nodiscard]] Relay& relay() { return relay_; }
  [[nodiscard]] const Relay& relay() const { return relay_; }
  [[nodiscard]] JobLog& log() { return log_; }
  [[nodiscard]] const JobLog& log() const { return log_; }
  [[nodiscard]] EndReports& end_reports() { return end_reports_; }
  [[nodiscard]] const EndReports& end_reports() const { return end_reports_; }

  /// The job has one more host, which may get ranks.
  void add_host(const std::string& name) { summary_.hosts.push_back(name); }
  /// The ranks of a host were started.
  void add(const JobHost& host, const StandardInput& input);
  /// A process of a rank is going to be started. The rank may be a new one, the next one by number.
  void expect(const RankPlacement& placement);
  /// A process of a rank was started, and is reported with --verbose, as its end is. Returns whether it was
  /// expected, and not one of the first.
  bool begin(int rank, const JobHost& host, int pid);
  /// It has ended. `told`: by hrun.
  void end(int rank, const Ending& ending, Clock::duration ago, bool told);
  /// The end of a rank, for the others.
  [[nodiscard]] RankEnd news_of(int rank, const Ending& ending) const;

 private:
  [[nodiscard]] RankSummary& of(int rank) { return summary_.ranks[static_cast<std::size_t>(rank)]; }

  Relay relay_;
  JobSummary summary_;
  JobLog log_;
  EndReports end_reports_;
  std::set<int> expected_;  // ranks of which a further process is going to be started
};

}  // namespace hora::hrun
