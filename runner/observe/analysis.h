// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/observe/dump_file.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// The analysis of all dumps of a job: a paragraph on which rank did what differently from the others, and a
/// table of all ranks. `dumps` is not empty, and has one of each rank at most, by rank; a rank without one
/// has died. A pure function.
[[nodiscard]] std::string analyze(const std::vector<RankDump>& dumps);

}  // namespace hora::hrun
