// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/slurm.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace hora::hrun {
namespace {

using Environment = std::map<std::string, std::string>;

std::vector<HostSlots> hosts_in(const Environment& environment) {
  return slurm_hosts([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Environment& environment) {
  try {
    static_cast<void>(hosts_in(environment));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

const Environment kBatch{{"SLURM_JOB_NODELIST", "gnode[08,10-11]"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};

TEST(SlurmHosts, AreTheNodesOfTheAllocationWithTheirTasks) {
  EXPECT_EQ(hosts_in(kBatch), (std::vector<HostSlots>{{"gnode08", 2}, {"gnode10", 2}, {"gnode11", 1}}));
  EXPECT_EQ(hosts_in({{"SLURM_JOB_NODELIST", "a,b"}}), (std::vector<HostSlots>{{"a", 1}, {"b", 1}}));
  EXPECT_TRUE(hosts_in({}).empty());
}

TEST(SlurmHosts, AreNoneInAStepOfSeveralTasks) {
  auto step = kBatch;
  step["SLURM_STEP_ID"] = "0";
  step["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_EQ(hosts_in(step).size(), 3u);
  step["SLURM_STEP_NUM_TASKS"] = "5";
  EXPECT_TRUE(hosts_in(step).empty());
}

TEST(SlurmHosts, NameTheVariableThatMakesNoSense) {
  EXPECT_EQ(
      refusal({{"SLURM_JOB_NODELIST", "n[1"}}),
      "SLURM_JOB_NODELIST: 'n[1' is no list of hosts: a '[' without its ']'; -H names the hosts instead");
  EXPECT_EQ(
      refusal({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "x"}}),
      "SLURM_TASKS_PER_NODE: 'x' is no list of tasks per node: expected numbers like 2(x3),1; -H names the "
      "hosts instead");
  EXPECT_EQ(
      refusal({{"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "2"}}),
      "SLURM_TASKS_PER_NODE='2' is for 1 nodes, but SLURM_JOB_NODELIST='a,b' names 2; -H names the hosts "
      "instead");
}

TEST(SrunCommand, StartsOneAgentOnOneNode) {
  const auto words = srun_command("/usr/bin/srun", "n7", "/opt/hora/bin/hrun");
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  EXPECT_EQ(words.front(), "/usr/bin/srun");
  EXPECT_TRUE(has("--nodelist=n7"));
  EXPECT_TRUE(has("--ntasks=1"));
  EXPECT_TRUE(has("--overlap"));
  EXPECT_EQ(words[words.size() - 2], "/opt/hora/bin/hrun");
  EXPECT_EQ(words.back(), "--agent");
}

TEST(ExplainSrun, TellsWhatToDo) {
  EXPECT_EQ(
      explain_srun("slurmstepd: error: execve(): /opt/hrun: No such file or directory", 2, "n7", "/opt/hrun"),
      "there is no /opt/hrun: install Hora at the same place on all nodes, or on a file system that they "
      "share");
  EXPECT_EQ(explain_srun("", 1, "n7", "hrun"), "srun ended with code 1 and said nothing");
  EXPECT_EQ(explain_srun("srun: error: Invalid node name specified", 1, "n7", "hrun"),
            "srun: error: Invalid node name specified; look whether n7 belongs to this allocation (squeue); "
            "--launcher "
            "ssh reaches others");
  EXPECT_EQ(explain_srun("srun: error: anything", 1, "n7", "hrun"), "srun: error: anything");
}

}  // namespace
}  // namespace hora::hrun
