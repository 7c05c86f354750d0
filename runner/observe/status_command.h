// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// Carries out `hrun status [JOB] [--json]` or `hrun dump [JOB]`: asks the hrun of that job on this host, for
/// up to five seconds. `words`: hrun's arguments; nothing is returned if they begin with neither command. JOB
/// is a job's id, the beginning of it, or the process of its hrun. It may be left out if one job runs; with
/// several, `status` lists them. Throws Error(invalid_argument) for arguments that make no sense. Other
/// errors are the text of the answer, with exit code 1.
[[nodiscard]] std::optional<Answer> answer_about_job(const std::vector<std::string>& words);

}  // namespace hora::hrun
