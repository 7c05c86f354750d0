// SPDX-License-Identifier: Apache-2.0
// The environments below were recorded: Slurm 22.05 (also with its pmi2 plugin), Open MPI 4.1, MPICH 4.0,
// torchrun of PyTorch 2.11; those of Flux and PALS are written after their documentation.
#include "core/base/rank_assignment.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace hora {
namespace {

using Variables = std::map<std::string, std::string>;

Variables operator+(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

std::optional<RankAssignment> assignment_in(const Variables& environment) {
  return find_rank_assignment([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) return std::nullopt;
    return found->second;
  });
}

/// The numbers that a launcher gives a rank, in the order of the fields.
std::vector<int> numbers_in(const Variables& environment) {
  const auto assignment = assignment_in(environment).value();
  return {assignment.rank,       assignment.size,       assignment.local_rank,
          assignment.local_size, assignment.cross_rank, assignment.cross_size};
}

std::string launcher_in(const Variables& environment) {
  const auto assignment = assignment_in(environment);
  return assignment ? assignment->launcher : "";
}

std::string why_no_assignment(const Variables& environment) {
  try {
    static_cast<void>(assignment_in(environment));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

const Variables kTorchrun{{"GROUP_RANK", "0"},
                          {"GROUP_WORLD_SIZE", "1"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"RANK", "1"},
                          {"ROLE_RANK", "1"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"WORLD_SIZE", "2"}};

/// Rank 2 of srun -N2 -n3.
const Variables kSlurm{{"SLURM_CLUSTER_NAME", "test"},
                       {"SLURM_JOB_ID", "7"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_NTASKS", "3"},
                       {"SLURM_PROCID", "2"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                       {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURM_STEP_NUM_TASKS", "3"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                       {"SLURM_TASKS_PER_NODE", "2,1"}};

/// The variables that sbatch gives to its script.
const Variables kBatch{{"SLURM_JOB_ID", "2"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "0"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_PROCID", "0"},
                       {"SLURM_JOB_NODELIST", "n[1-2]"},
                       {"SLURM_TASKS_PER_NODE", "2(x2)"}};

/// Rank 2 of mpirun -np 4 in an allocation of two nodes: the daemon on the second one is a task of Slurm's.
const Variables kOpenMpi{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "0"},
                         {"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_MCA_ess_base_jobid", "286916609"},
                         {"OMPI_MCA_orte_precondition_transports", "9e2d6b69de7b3a08-d5267a0633bfdd0f"},
                         {"PMIX_NAMESPACE", "286916609"},
                         {"PMIX_RANK", "2"}};
const Variables kDaemon{{"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_PROCID", "1"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NODELIST", "n[1-2]"},
                        {"SLURM_STEP_NUM_NODES", "2"},
                        {"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

/// Rank 3 of mpiexec -np 4 in the same allocation.
const Variables kHydra{{"MPI_LOCALNRANKS", "2"},
                       {"MPI_LOCALRANKID", "1"},
                       {"PMI_FD", "6"},
                       {"PMI_RANK", "3"},
                       {"PMI_SIZE", "4"}};

const Variables kFlux{
    {"FLUX_JOB_ID", "f2xyz"}, {"FLUX_JOB_NNODES", "1"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_TASK_LOCAL_ID", "3"},
    {"FLUX_TASK_RANK", "3"},  {"PMI_RANK", "3"},        {"PMI_SIZE", "4"}};

TEST(RankAssignment, IsNoneWithoutALauncher) {
  EXPECT_FALSE(assignment_in({}));
  EXPECT_FALSE(assignment_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
}

TEST(RankAssignment, IsWhatTorchrunSays) {
  EXPECT_EQ(numbers_in(kTorchrun), (std::vector{1, 2, 1, 2, 0, 1}));
  const auto assignment = assignment_in(kTorchrun).value();
  EXPECT_EQ(assignment.launcher, "torchrun");
  EXPECT_EQ(assignment.first_host, "127.0.0.1");
  const Variables second{{"RANK", "6"},       {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "4"},
                         {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"}};
  EXPECT_EQ(numbers_in(kTorchrun + second), (std::vector{6, 8, 2, 4, 1, 2}));
}

TEST(RankAssignment, IsTheSameJobForAllRanksAndAttemptsOfATorchrun) {
  const auto job = [](const Variables& more) { return assignment_in(kTorchrun + more).value().job; };
  EXPECT_EQ(job({}), job({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_NE(job({}), job({{"TORCHELASTIC_RUN_ID", "other"}}));
  EXPECT_NE(job({}), job({{"MASTER_PORT", "29501"}}));
}

TEST(RankAssignment, IsWhatSlurmSaysOfATask) {
  EXPECT_EQ(numbers_in(kSlurm), (std::vector{2, 3, 0, 1, 1, 2}));
  const auto assignment = assignment_in(kSlurm).value();
  EXPECT_EQ(assignment.launcher, "Slurm");
  EXPECT_EQ(assignment.first_host, "n1");
  EXPECT_EQ(assignment.job, "SLURM_CLUSTER_NAME=test SLURM_JOB_ID=7 SLURM_STEP_ID=0 ");
}

TEST(RankAssignment, CountsOnlyNodesThatHaveSuchALocalRank) {
  const Variables second_local{{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(numbers_in(kSlurm + second_local), (std::vector{1, 3, 1, 2, 0, 1}));
  const Variables uneven{{"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_TASKS_PER_NODE", "1,3(x2)"},
                         {"SLURM_PROCID", "5"},         {"SLURM_NODEID", "2"},
                         {"SLURM_LOCALID", "1"},        {"SLURM_STEP_NODELIST", "n[1-3]"}};
  EXPECT_EQ(numbers_in(kSlurm + uneven), (std::vector{5, 7, 1, 3, 1, 2}));
}

TEST(RankAssignment, IsTheNumbersOfACyclicDistribution) {
  const Variables cyclic{{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(numbers_in(kSlurm + cyclic), (std::vector{1, 3, 0, 1, 1, 2}));
}

TEST(RankAssignment, IsNoneInABatchScriptOrAnInteractiveStep) {
  EXPECT_FALSE(assignment_in(kBatch));
  EXPECT_FALSE(assignment_in(kSlurm + Variables{{"SLURM_STEP_ID", "4294967290"}}));
  EXPECT_FALSE(assignment_in(kSlurm + Variables{{"SLURM_STEP_ID", "batch"}}));
}

TEST(RankAssignment, IsOpenMpisInsideItsDaemonsOfSlurm) {
  EXPECT_EQ(numbers_in(kOpenMpi + kDaemon), (std::vector{2, 4, 0, 2, 0, 0}));
  EXPECT_EQ(launcher_in(kOpenMpi + kDaemon), "Open MPI");
  EXPECT_EQ(assignment_in(kOpenMpi)->first_host, "");
  const Variables one_host{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}};
  EXPECT_EQ(numbers_in(kOpenMpi + one_host), (std::vector{2, 4, 2, 4, 0, 1}));
  const Variables one_each{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  EXPECT_EQ(numbers_in(kOpenMpi + one_each), (std::vector{2, 4, 0, 1, 2, 4}));
}

TEST(RankAssignment, IsHydrasInsideItsProxiesOfSlurm) {
  EXPECT_EQ(numbers_in(kHydra + kDaemon), (std::vector{3, 4, 1, 2, 0, 0}));
  EXPECT_EQ(launcher_in(kHydra + kDaemon), "PMI");
}

TEST(RankAssignment, IsSlurmsWhereItSpeaksPmiItself) {
  const Variables pmi2{{"PMI_FD", "13"}, {"PMI_JOBID", "3.0"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}};
  EXPECT_EQ(launcher_in(kSlurm + pmi2), "Slurm");
}

TEST(RankAssignment, IsPalsThroughPmi) {
  const Variables pals{{"PALS_APID", "a1"}, {"PALS_RANKID", "5"},    {"PMI_RANK", "5"},
                       {"PMI_SIZE", "8"},   {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}};
  EXPECT_EQ(numbers_in(pals), (std::vector{5, 8, 1, 4, 0, 0}));
  EXPECT_EQ(assignment_in(pals)->job, "PALS_APID=a1 ");
}

TEST(RankAssignment, IsJsrunsUnlessAnMpirunInsideOfItSaysSomethingElse) {
  const Variables jsrun{{"JSM_NAMESPACE_RANK", "5"},
                        {"JSM_NAMESPACE_SIZE", "8"},
                        {"JSM_NAMESPACE_LOCAL_RANK", "1"},
                        {"JSM_NAMESPACE_LOCAL_SIZE", "4"},
                        {"LSB_JOBID", "77"},
                        {"LSB_MCPU_HOSTS", "batch 1 h1 42 h2 42"},
                        {"OMPI_COMM_WORLD_RANK", "5"},
                        {"OMPI_COMM_WORLD_SIZE", "8"},
                        {"PMIX_RANK", "5"}};
  EXPECT_EQ(numbers_in(jsrun), (std::vector{5, 8, 1, 4, 0, 0}));
  const auto assignment = assignment_in(jsrun).value();
  EXPECT_EQ(assignment.launcher, "jsrun");
  EXPECT_EQ(assignment.job, "LSB_JOBID=77 ");
  EXPECT_EQ(assignment.first_host, "h1");
  const auto first_host = [&](const std::string& hosts) {
    return assignment_in(jsrun + Variables{{"LSB_MCPU_HOSTS", hosts}})->first_host;
  };
  EXPECT_EQ(first_host("h1 4 h2 4"), "h1");
  EXPECT_EQ(first_host("h1 1"), "h1");
  EXPECT_EQ(first_host("h1 1 h2 1"), "h1");
  EXPECT_EQ(first_host("h1 h2"), "");
  EXPECT_EQ(launcher_in(jsrun + Variables{{"OMPI_COMM_WORLD_RANK", "0"},
                                          {"OMPI_COMM_WORLD_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "Open MPI");
}

TEST(RankAssignment, IsFluxs) {
  EXPECT_EQ(numbers_in(kFlux), (std::vector{3, 4, 3, 4, 0, 1}));
  EXPECT_EQ(launcher_in(kFlux + kDaemon), "Flux");
  EXPECT_EQ(numbers_in(kFlux + Variables{{"FLUX_JOB_NNODES", "2"}}), (std::vector{3, 4, 0, 0, 0, 0}));
}

TEST(RankAssignment, IsTorchrunsUnderAnyOther) {
  for (const auto& outer : {kSlurm, kDaemon, kOpenMpi, kHydra, kFlux})
    EXPECT_EQ(launcher_in(outer + kTorchrun), "torchrun");
  const Variables hruns{{"TORCHELASTIC_RUN_ID", "hrun:10.0.0.1:4000"}};
  for (const auto& inner : {kSlurm, kOpenMpi, kHydra, kFlux})
    EXPECT_EQ(launcher_in(kTorchrun + hruns + inner), launcher_in(inner)) << "in a rank of hrun's";
}

TEST(RankAssignment, NeedsASizeWithPmix) {
  const Variables pmix{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prterun-h-1@1"}};
  EXPECT_EQ(why_no_assignment(pmix),
            "PMIX_RANK='3': PMIx tells a process its rank, but not how many there are: set HORA_SIZE as "
            "well; to say "
            "it yourself, set HORA_RANK and HORA_SIZE");
  EXPECT_EQ(numbers_in(pmix + Variables{{"HORA_SIZE", "4"}}), (std::vector{3, 4, 0, 0, 0, 0}));
  EXPECT_FALSE(assignment_in({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "singleton"}}));
}

TEST(RankAssignment, IsTheCompletionIndexOfAnIndexedJob) {
  const Variables pod{{"JOB_COMPLETION_INDEX", "2"}};
  EXPECT_FALSE(assignment_in(pod));
  EXPECT_EQ(numbers_in(pod + Variables{{"HORA_SIZE", "4"}, {"HORA_COORDINATOR", "train-0.train:29400"}}),
            (std::vector{2, 4, 0, 0, 0, 0}));
}

TEST(RankAssignment, IsPyTorchsWhereNobodyElseSaysMore) {
  const Variables pytorch{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "master-0"}, {"MASTER_PORT", "23456"}};
  EXPECT_EQ(numbers_in(pytorch), (std::vector{1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(assignment_in(pytorch)->first_host, "master-0");
  EXPECT_EQ(launcher_in(pytorch + kSlurm), "Slurm");
}

TEST(RankAssignment, NamesTheVariableThatMakesNoSense) {
  EXPECT_EQ(
      why_no_assignment(kTorchrun + Variables{{"WORLD_SIZE", "many"}}),
      "WORLD_SIZE='many': torchrun gives each of its processes a whole number from 1 to 1048576; to say it "
      "yourself, set HORA_RANK and HORA_SIZE");
  EXPECT_EQ(why_no_assignment(kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
            "OMPI_COMM_WORLD_LOCAL_RANK='2': Open MPI gives each of its processes a whole number from 0 to "
            "1; to say "
            "it yourself, set HORA_RANK and HORA_SIZE");
  EXPECT_EQ(why_no_assignment({{"OMPI_COMM_WORLD_RANK", "0"}}),
            "OMPI_COMM_WORLD_SIZE='': Open MPI gives each of its processes a whole number from 1 to 1048576; "
            "to say "
            "it yourself, set HORA_RANK and HORA_SIZE");
  EXPECT_EQ(why_no_assignment(kSlurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}),
            "'2(x' is no list of tasks per node: a '(' without its ')'");
  EXPECT_NE(why_no_assignment(kSlurm + Variables{{"SLURM_NODEID", "2"}}).find("SLURM_NODEID='2'"),
            std::string::npos);
}

TEST(RendezvousPoints, AreAHandfulOfPortsThatFollowFromTheJob) {
  const auto points = rendezvous_points("n1", "job 7");
  EXPECT_EQ(points, rendezvous_points("n1", "job 7"));
  EXPECT_NE(points, rendezvous_points("n1", "job 8"));
  std::set<int> ports;
  for (std::size_t at = 0; at != std::string::npos; at = points.find(',', at + 1)) {
    const auto point = points.substr(at == 0 ? 0 : at + 1);
    EXPECT_EQ(point.substr(0, 3), "n1:");
    ports.insert(std::stoi(point.substr(3)));
  }
  EXPECT_EQ(ports.size(), 8u);
  EXPECT_GE(*ports.begin(), 20'000);
  EXPECT_LT(*ports.rbegin(), 32'768);
  EXPECT_EQ(rendezvous_points("fd00::1", "job").substr(0, 10), "[fd00::1]:");
}

TEST(RendezvousSocket, IsOfOneJobAndOneUser) {
  EXPECT_EQ(meeting_place("a", 1), meeting_place("a", 1));
  EXPECT_NE(meeting_place("a", 1), meeting_place("b", 1));
  EXPECT_NE(meeting_place("a", 1), meeting_place("a", 2));
  EXPECT_LT(meeting_place(std::string(1000, 'x'), ~0U).size(), 100u);
}

TEST(Loopback, IsTheHostItself) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(means_this_host(host)) << host;
  for (const char* host : {"", "n1", "10.0.0.1", "localhost2"}) EXPECT_FALSE(means_this_host(host)) << host;
}

}  // namespace
}  // namespace hora
