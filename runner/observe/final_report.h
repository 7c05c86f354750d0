// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/what_next.h"
#include "runner/observe/end_reports.h"
#include "runner/observe/job_log.h"
#include "runner/observe/summary.h"

#include <string>

namespace hora::hrun {

class Relay;
class StandardInput;

/// All that hrun knows of a job at its end. Refers to it.
struct JobEnd {
  const JobState& state;
  const EndReports& reports;
  const Relay& relay;
  const StandardInput& input;
  const JobLog& log;
};

/// The text that hrun prints when the ranks have ended: which rank or host failed first and why, how the
/// others ended, and where the dumps are. Empty: there is nothing to say.
[[nodiscard]] std::string final_report(const JobEnd& end, const JobSummary& summary);

/// Completes the summary of a job whose ranks were started. `exit_code`: that of hrun.
void complete(JobSummary& summary, const JobEnd& end, int exit_code);

}  // namespace hora::hrun
