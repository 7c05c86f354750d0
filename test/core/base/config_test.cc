// SPDX-License-Identifier: Apache-2.0
#include <hora/config.h>
#include <hora/status.h>

#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

namespace hora {
namespace {

/// Sets variables for the time of a test.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

std::string refusal(std::map<std::string, std::string> variables) {
  const Environment environment(std::move(variables));
  try {
    static_cast<void>(Config::from_environment());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Config, IsOneRankWithoutALauncher) {
  const Config config = Config::from_environment();
  EXPECT_EQ(config.rank, 0);
  EXPECT_EQ(config.size, 1);
  EXPECT_EQ(config.cpu_operations, "auto");
}

TEST(Config, HasAPlaceThatTheProgramGivesWhateverTheEnvironmentSays) {
  const Environment environment({{"HORA_RANK", "7"},
                                 {"HORA_SIZE", "8"},
                                 {"HORA_SECRET_FD", "99"},
                                 {"HORA_COORDINATOR", "b:2"},
                                 {"HORA_NEWS_FD", "3"},
                                 {"HORA_START_TIMEOUT", "1.5"}});
  Secret secret{};
  secret[0] = 1;
  const Config config = Config::with_place(1, 4, "a:1", secret);
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.size, 4);
  EXPECT_EQ(config.local_size, 0) << "found out";
  EXPECT_EQ(config.cross_size, 0) << "found out";
  EXPECT_EQ(config.coordinator, "a:1");
  EXPECT_EQ(config.secret, secret);
  EXPECT_FALSE(config.news_fd.has_value());
  EXPECT_EQ(config.start_timeout, std::chrono::milliseconds(1500)) << "other settings count";

  const auto refused = [](int rank, int size, const std::string& coordinator, const Secret& known) {
    return thrown([&] { static_cast<void>(Config::with_place(rank, size, coordinator, known)); }).message;
  };
  EXPECT_EQ(refused(-1, 4, "a:1", secret), "rank=-1: with size=4 ranks are 0 to 3");
  EXPECT_EQ(refused(0, 0, "a:1", secret), "size=0: a job has 1 to 1048576 ranks");
  EXPECT_NE(refused(0, 2, "", secret).find("size=2 needs a coordinator"), std::string::npos);
  EXPECT_NE(refused(0, 2, "a:1", {}).find("size=2 needs a secret: 32 random bytes"), std::string::npos);
  EXPECT_EQ(refused(0, 1, "", {}), "");
}

TEST(Config, FindsOutTheRanksOfAHostIfTheirNumberIsZero) {
  const Environment environment({{"HORA_LOCAL_SIZE", "0"}, {"HORA_CROSS_SIZE", "0"}});
  EXPECT_EQ(Config::from_environment().local_size, 0);
  EXPECT_EQ(Config::from_environment().cross_size, 0);
}

TEST(Config, ReadsEveryKnob) {
  const Environment environment({{"HORA_FUSION_THRESHOLD", "1000"},
                                 {"HORA_HEARTBEAT_TIMEOUT", "0"},
                                 {"HORA_START_TIMEOUT", "1.5"},
                                 {"HORA_CPU_OPERATIONS", "tcp"},
                                 {"HORA_PEER_MEMORY", "0"},
                                 {"HORA_STREAMING_STORES", "1"},
                                 {"HORA_LEVELS", "8,32"},
                                 {"HORA_TREE", "0"},
                                 {"HORA_GPU_OPERATIONS", "staged"},
                                 {"HORA_GPU_FUSION_THRESHOLD", "2000"},
                                 {"HORA_NCCL_LIBRARY", "/opt/libnccl.so.2"},
                                 {"HORA_FLOAT32_SUMS", "1"},
                                 {"HORA_ENCRYPTION", "all"},
                                 {"HORA_OPERATION_TIMEOUT", "2.5"},
                                 {"HORA_MISSING_WARNING", "0"},
                                 {"HORA_MISSING_TIMEOUT", "90"},
                                 {"HORA_STRAGGLER_STEPS", "50"},
                                 {"HORA_RECORDED_OPERATIONS", "5"},
                                 {"HORA_LOG_LEVEL", "debug"},
                                 {"HORA_ARENA_SIZE", "33554432"},
                                 {"HORA_AUTOTUNE", "1"},
                                 {"HORA_AUTOTUNE_LOG", "trials.csv"},
                                 {"HORA_AUTOTUNE_STEPS", "25"},
                                 {"HORA_DUMP_DIR", "dumps"},
                                 {"HORA_DUMP_SIGNAL", "USR2"},
                                 {"HORA_NEWS_FD", "9"},
                                 {"HORA_QUESTION_FD", "10"},
                                 {"HORA_MEMBER_FD", "11"},
                                 {"HORA_LIFE_FD", "12"},
                                 {"HORA_MEMBER_ID", "4"},
                                 {"HORA_JOINS_LATE", "1"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.fusion_threshold, 1000u);
  EXPECT_TRUE(config.autotune);
  EXPECT_EQ(config.autotune_log, "trials.csv");
  EXPECT_EQ(config.autotune_steps, 25);
  EXPECT_EQ(config.heartbeat_timeout.count(), 0);
  EXPECT_EQ(config.start_timeout.count(), 1500);
  EXPECT_EQ(config.cpu_operations, "tcp");
  EXPECT_EQ(config.peer_memory, false);
  EXPECT_EQ(config.levels, (std::vector<int>{8, 32}));
  EXPECT_EQ(config.tree_radix, 0);
  EXPECT_EQ(config.streaming_stores, true);
  EXPECT_EQ(config.gpu_operations, "staged");
  EXPECT_EQ(config.gpu_fusion_threshold, 2000u);
  EXPECT_EQ(config.nccl_library, "/opt/libnccl.so.2");
  EXPECT_TRUE(config.float32_sums);
  EXPECT_EQ(config.encryption, "all");
  EXPECT_EQ(config.operation_timeout.count(), 2500);
  EXPECT_EQ(config.missing_warning.count(), 0);
  EXPECT_EQ(config.missing_timeout.count(), 90'000);
  EXPECT_EQ(config.straggler_steps, 50);
  EXPECT_EQ(config.recorded_operations, 5u);
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_EQ(config.arena_size, 33554432u);
  EXPECT_EQ(config.dump_directory, "dumps");
  EXPECT_EQ(config.dump_signal, SIGUSR2);
  EXPECT_EQ(config.news_fd, 9);
  EXPECT_EQ(config.question_fd, 10);
  EXPECT_EQ(config.life_fd, 12);
}

TEST(Config, NamesTheVariableTheValueAndWhatIsAccepted) {
  EXPECT_EQ(refusal({{"HORA_FUSION_THRESHOLD", "64MB"}}),
            "HORA_FUSION_THRESHOLD='64MB': expected a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(refusal({{"HORA_GPU_OPERATIONS", "gloo"}}),
            "HORA_GPU_OPERATIONS='gloo': expected one of auto, nccl, hierarchical, staged");
  EXPECT_EQ(refusal({{"HORA_START_TIMEOUT", "soon"}}),
            "HORA_START_TIMEOUT='soon': expected seconds from 0.001 to 10000000");
  EXPECT_EQ(refusal({{"HORA_SIZE", "-1"}}), "HORA_SIZE='-1': expected a whole number from 1 to 1048576");
  EXPECT_EQ(refusal({{"HORA_ARENA_SIZE", "4096"}}),
            "HORA_ARENA_SIZE='4096': expected 0 or at least 16777216 bytes");
}

TEST(Config, TakesLevelsThatEachHoldWholeGroupsOfTheOneBefore) {
  EXPECT_EQ(Config().levels, std::nullopt);
  const auto levels = [](const std::string& value) {
    const Environment environment(std::map<std::string, std::string>{{"HORA_LEVELS", value}});
    return Config::from_environment().levels;
  };
  EXPECT_EQ(levels("auto"), std::nullopt);
  EXPECT_EQ(levels("0"), std::vector<int>{});
  EXPECT_EQ(levels("4"), std::vector<int>{4});
  for (const std::string value : {"1", "8,12", "8,8", "8,", ",8", "8;16", "-2", "2,4,8,16,32", "x"}) {
    EXPECT_EQ(
        refusal({{"HORA_LEVELS", value}}),
        "HORA_LEVELS='" + value +
            "': expected auto, 0, or at most 4 numbers of ranks such as 8,32, each a multiple of the one "
            "before");
  }
}

TEST(Config, NamesVariablesThatMeanNothing) {
  const Environment environment(
      {{"HORA_FUSION_THRESOLD", "1"}, {"HORA_FUSION_THRESHOLD", "1"}, {"HORATIO", "1"}});
  EXPECT_EQ(Config::unknown_variables(), std::vector<std::string>{"HORA_FUSION_THRESOLD"});
}

TEST(Config, TakesHorovodsVariablesWhereOursAreNotSet) {
  const Environment environment({{"HOROVOD_FUSION_THRESHOLD", "1000"},
                                 {"HOROVOD_START_TIMEOUT", "7"},
                                 {"HOROVOD_GLOO_TIMEOUT_SECONDS", "9"},
                                 {"HOROVOD_STALL_CHECK_TIME_SECONDS", "20"},
                                 {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "30"},
                                 {"HOROVOD_STALL_CHECK_DISABLE", "0"},
                                 {"HOROVOD_TIMELINE", "trace.json"},
                                 {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
                                 {"HOROVOD_AUTOTUNE", "1"},
                                 {"HOROVOD_AUTOTUNE_LOG", "trials.csv"},
                                 {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "20"},
                                 {"HOROVOD_LOG_LEVEL", "TRACE"}});
  Config config = Config::from_environment();
  EXPECT_EQ(config.fusion_threshold, 1000u);
  EXPECT_EQ(config.start_timeout.count(), 7000);
  EXPECT_EQ(config.missing_warning.count(), 20'000);
  EXPECT_EQ(config.missing_timeout.count(), 30'000);
  EXPECT_TRUE(config.autotune);
  EXPECT_EQ(config.autotune_log, "trials.csv");
  EXPECT_EQ(config.autotune_steps, 20);
  EXPECT_EQ(config.timeline, "trace.json");
  EXPECT_TRUE(config.timeline_mark_cycles);
  EXPECT_EQ(config.log_level, "debug");

  const Environment ours({{"HORA_FUSION_THRESHOLD", "2000"}, {"HORA_START_TIMEOUT", "3"}});
  config = Config::from_environment();
  EXPECT_EQ(config.fusion_threshold, 2000u);
  EXPECT_EQ(config.start_timeout.count(), 3000);
}

TEST(Config, TranslatesTheValuesOfHorovodsVariables) {
  const Environment environment({{"HOROVOD_FUSION_THRESHOLD", "0"},
                                 {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                 {"HOROVOD_STALL_CHECK_TIME_SECONDS", "20"},
                                 {"HOROVOD_TIMELINE", "DYNAMIC"},
                                 {"HOROVOD_LOG_LEVEL", "loud"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.fusion_threshold, 1u);
  EXPECT_EQ(config.missing_warning.count(), 0);
  EXPECT_EQ(config.missing_timeout.count(), 0);
  EXPECT_EQ(config.timeline, "");
  EXPECT_EQ(config.log_level, "warning");
}

TEST(Config, NamesHorovodsVariableWhenItsValueIsRefused) {
  EXPECT_EQ(refusal({{"HOROVOD_FUSION_THRESHOLD", "64MB"}}),
            "HOROVOD_FUSION_THRESHOLD='64MB': expected a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(refusal({{"HOROVOD_START_TIMEOUT", "soon"}}),
            "HOROVOD_START_TIMEOUT='soon': expected seconds from 0.001 to 10000000");
}

TEST(Config, NotesWhichOfHorovodsVariablesCountAndWhichMeanNothing) {
  EXPECT_TRUE(Config::horovod_notes().empty());
  const Environment environment({{"HOROVOD_FUSION_THRESHOLD", "0"},
                                 {"HOROVOD_LOG_LEVEL", "INFO"},
                                 {"HORA_LOG_LEVEL", "error"},
                                 {"HOROVOD_CYCLE_TIME", "5"},
                                 {"HOROVOD_CACHE_CAPACITY", "0"},
                                 {"HOROVOD_ELASTIC", "1"},
                                 {"HOROVOD_RANK", "0"}});
  EXPECT_EQ(
      Config::horovod_notes(),
      (std::vector<std::string>{
          "taken from Horovod's variables: HOROVOD_FUSION_THRESHOLD=0 as HORA_FUSION_THRESHOLD=1",
          "variables of Horovod's that mean nothing here: HOROVOD_CACHE_CAPACITY, HOROVOD_CYCLE_TIME"}));
}

TEST(Config, WantsARankBelowTheSize) {
  EXPECT_EQ(refusal({{"HORA_RANK", "2"}, {"HORA_SIZE", "2"}, {"HORA_SECRET_FD", "9"}}),
            "HORA_RANK='2': must be less than HORA_SIZE=2");
}

TEST(Config, TellsWhoStartedRanksWithoutASecretToUseHrun) {
  const std::string text = refusal({{"HORA_SIZE", "2"}});
  EXPECT_NE(text.find("start the ranks with hrun"), std::string::npos) << text;
}

TEST(Config, IsAnAssignmentOfAnotherLauncherThatMeetsOnOneHost) {
  const Environment environment({{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"PMIX_NAMESPACE", "1"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.size, 2);
  EXPECT_EQ(config.local_rank, 1);
  EXPECT_EQ(config.launcher, "Open MPI");
  EXPECT_NE(config.meeting_place, "");
  EXPECT_EQ(config.coordinator, "");

  const Environment more({{"HORA_COORDINATOR", "n1:29400"}, {"HORA_SECRET_FILE", "secret"}});
  const Config told = Config::from_environment();
  EXPECT_EQ(told.meeting_place, "");
  EXPECT_EQ(told.coordinator, "n1:29400");
  EXPECT_EQ(told.secret_file, "secret");
}

TEST(Config, LooksForRank0OnTheFirstHost) {
  const Environment environment({{"SLURM_STEP_ID", "0"},
                                 {"SLURM_JOB_ID", "7"},
                                 {"SLURM_PROCID", "1"},
                                 {"SLURM_STEP_NUM_TASKS", "2"},
                                 {"SLURM_NODEID", "1"},
                                 {"SLURM_LOCALID", "0"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                 {"SLURM_STEP_NODELIST", "n[4,7]"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.cross_rank, 1);
  EXPECT_EQ(config.cross_size, 2);
  EXPECT_EQ(config.meeting_place, "");
  EXPECT_EQ(config.coordinator.substr(0, 3), "n4:");

  const Environment run_hrun({{"HORA_RANK", "0"}, {"HORA_SIZE", "1"}});
  EXPECT_EQ(Config::from_environment().size, 1);
  EXPECT_EQ(Config::from_environment().launcher, "");
}

TEST(Config, NeedsNothingFromALauncherThatStartedOneRank) {
  const Environment environment({{"RANK", "0"},
                                 {"WORLD_SIZE", "1"},
                                 {"LOCAL_RANK", "0"},
                                 {"LOCAL_WORLD_SIZE", "1"},
                                 {"TORCHELASTIC_RUN_ID", "none"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.size, 1);
  EXPECT_EQ(config.meeting_place, "");
}

TEST(Config, LeavesTheHostsToTheRendezvousOfRanksThatWereStartedByHand) {
  const Environment environment(
      {{"HORA_RANK", "3"}, {"HORA_SIZE", "4"}, {"HORA_COORDINATOR", "a:1"}, {"HORA_SECRET_FILE", "secret"}});
  const Config config = Config::from_environment();
  EXPECT_EQ(config.local_size, 0);
  EXPECT_EQ(config.cross_size, 0);
}

}  // namespace
}  // namespace hora
