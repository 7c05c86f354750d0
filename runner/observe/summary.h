// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/process.h"
#include "runner/observe/generation_report.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

using WallTime = std::chrono::system_clock::time_point;

/// The outcome of a process. A value.
struct ProcessSummary {
  int pid = 0;
  std::optional<Ending> ending;  ///< none: it was lost with its host
  std::optional<WallTime> started;
  std::optional<WallTime> ended;
  bool ended_by_hrun = false;  ///< it was told to end
};

/// The outcome of a rank, and of its process: the last one, if it was replaced. A value.
struct RankSummary : ProcessSummary {
  int rank = 0;
  std::string host;
  std::vector<ProcessSummary> earlier;  ///< processes that were replaced, in order
  std::uint64_t output_lines = 0;
  std::uint64_t error_lines = 0;
  bool first_cause = false;  ///< the job failed because of it
  bool lost = false;         ///< an elastic job went on without it
  std::string last_words;    ///< the last line that it wrote to stderr
  std::string reason;        ///< why it ended, as it told itself: "ValueError: bad batch"; empty: it did not
  std::string where;         ///< at which lines of the program: "train.py:31 in step, train.py:40"

  /// Its process was started, or another one.
  void begin(int process);
  /// Its process has ended, `ago` before now. `told`: because hrun has told it.
  void end(const Ending& how, std::chrono::system_clock::duration ago, bool told);
};

/// The outcome of a job. A value.
struct JobSummary {
  std::vector<std::string> command;
  std::vector<std::string> hosts;
  int exit_code = 0;        ///< of hrun
  std::string first_cause;  ///< "rank 2 (pid 4711 on node7) was killed by signal 9 (Killed)"; empty: it was
                            ///< well, or ended for no rank's sake
  std::uint64_t generation = 0;        ///< the last one of an elastic job; 0: none, or the job is not elastic
  std::vector<ChangeSummary> changes;  ///< of the ranks of an elastic job
  std::vector<RankSummary> ranks;
};

/// One JSON object; times are UTC.
[[nodiscard]] std::string to_json(const JobSummary& summary);

/// Writes `<directory>/summary.json`, whole or not at all. Throws Error(unavailable) with the path and the
/// system's reason.
void write_summary(const JobSummary& summary, const std::string& directory);

}  // namespace hora::hrun
