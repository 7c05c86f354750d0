// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hora {

// Slurm writes many hosts in few words. Both throw Error(invalid_argument) that quotes the text and says what
// is wrong with it, also where it would stand for more than 2^20 hosts.

/// The hosts that SLURM_JOB_NODELIST and the like stand for, in their order: "gnode[08,10-12],login" is
/// gnode08 gnode10 gnode11 gnode12 login. Several brackets in one name multiply, the last one fastest.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view text);

/// The numbers that SLURM_TASKS_PER_NODE and the like stand for, one for each host: "2(x3),1" is 2 2 2 1.
[[nodiscard]] std::vector<int> expand_task_counts(std::string_view text);

}  // namespace hora
