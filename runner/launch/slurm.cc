// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/slurm.h"

#include "core/base/node_list.h"

#include <hora/status.h>

#include <fmt/format.h>

namespace hora::hrun {
namespace {

/// The result of `read` for a variable's value. Throws Error(invalid_argument) that names the variable.
template <typename Function>
auto understood(const char* variable, const std::string& value, Function read) {
  try {
    return read(value);
  } catch (const Error& error) {
    throw Error(Code::invalid_argument,
                fmt::format("{}: {}; -H names the hosts instead", variable, error.what()));
  }
}

}  // namespace

std::vector<HostSlots> slurm_hosts(
    const std::function<std::optional<std::string>(const std::string& name)>& lookup) {
  const auto nodes = lookup("SLURM_JOB_NODELIST");
  if (!nodes || nodes->empty()) return {};
  if (lookup("SLURM_STEP_ID") && lookup("SLURM_STEP_NUM_TASKS").value_or("1") != "1") return {};
  const auto names = understood("SLURM_JOB_NODELIST", *nodes, expand_node_list);
  const auto tasks = lookup("SLURM_TASKS_PER_NODE");
  auto counts = std::vector<int>(names.size(), 1);
  if (tasks) counts = understood("SLURM_TASKS_PER_NODE", *tasks, expand_task_counts);
  if (counts.size() != names.size())
    throw Error(
        Code::invalid_argument,
        fmt::format("SLURM_TASKS_PER_NODE='{}' is for {} nodes, but SLURM_JOB_NODELIST='{}' names {}; -H "
                    "names the hosts instead",
                    *tasks, counts.size(), *nodes, names.size()));
  std::vector<HostSlots> hosts;
  for (std::size_t i = 0; i < names.size(); ++i) hosts.push_back({names[i], counts[i]});
  return hosts;
}

std::vector<std::string> srun_command(const std::string& srun, const std::string& host,
                                      const std::string& hrun) {
  return {srun,
          "--quiet",
          "--nodes=1",
          "--ntasks=1",
          "--nodelist=" + host,
          "--overlap",        // beside what else runs in the allocation, a shell for example
          "--mem=0",          // all of it: without --exact the step has all processors, too
          "--cpu-bind=none",  // ranks are bound by hrun, if at all
          "--unbuffered",     // what the agent says are no lines, and must not wait for the end of one
          "--mpi=none",
          "--export=ALL",
          "--chdir=/",
          hrun,
          "--agent"};
}

std::string explain_srun(const std::string& words, int exit_code, const std::string& host,
                         const std::string& hrun) {
  if (words.find("execve") != std::string::npos && words.find("No such file") != std::string::npos)
    return fmt::format(
        "there is no {}: install Hora at the same place on all nodes, or on a file system that they "
        "share",
        hrun);
  if (words.empty()) return fmt::format("srun ended with code {} and said nothing", exit_code);
  if (words.find("Invalid node name") != std::string::npos ||
      words.find("not in this job") != std::string::npos ||
      words.find("Requested node configuration") != std::string::npos)
    return fmt::format(
        "{}; look whether {} belongs to this allocation (squeue); --launcher ssh reaches others", words,
        host);
  return words;
}

}  // namespace hora::hrun
