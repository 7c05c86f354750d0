// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// `hrun status [JOB] [--json]` and `hrun dump [JOB]`; nothing if the words are others. JOB is a job's id, or
/// how it begins, or its hrun's process; it may be left out where one job runs. Asks that hrun, which may
/// take some seconds. Throws Error(invalid_argument) for words that make no sense.
[[nodiscard]] std::optional<Answer> answer_about_job(const std::vector<std::string>& words);

}  // namespace hora::hrun
