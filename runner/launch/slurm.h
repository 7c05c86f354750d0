// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/hosts.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// The nodes of the allocation of Slurm's in which hrun runs (a batch script, the shell of salloc, a step of
/// one task), and how many tasks each takes; none outside an allocation, and none in a step of several tasks,
/// where every task runs an hrun of its own. `lookup` gives the value of a variable of the environment.
/// Throws Error(invalid_argument) that names the variable if one cannot be understood. A pure function.
[[nodiscard]] std::vector<HostSlots> slurm_hosts(
    const std::function<std::optional<std::string>(const std::string& name)>& lookup);

/// The program and arguments that start an agent on a node of the allocation: `hrun` there, from the same
/// path as here. The step has all of the node's share of the allocation, beside other steps. `srun` and
/// `hrun` are paths. A pure function.
[[nodiscard]] std::vector<std::string> srun_command(const std::string& srun, const std::string& host,
                                                    const std::string& hrun);

/// Why there is no agent, from what srun wrote to stderr and how it ended: its own words, and the remedy
/// where one is known. A pure function.
[[nodiscard]] std::string explain_srun(const std::string& words, int exit_code, const std::string& host,
                                       const std::string& hrun);

}  // namespace hora::hrun
