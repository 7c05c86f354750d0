// SPDX-License-Identifier: Apache-2.0
#include "runner/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::Contains;
using testing::Each;
using testing::Not;
using testing::StartsWith;

TEST(RankEnvironment, TellsTheRankWhoItIs) {
  RankFacts facts;
  facts.rank = 1;
  facts.size = 3;
  facts.coordinator = "127.0.0.1:4000";
  facts.secret_fd = 7;
  facts.threads = 2;
  const auto settings = rank_environment({"PATH=/bin"}, {}, facts);
  for (const char* expected : {"PATH=/bin", "HORA_RANK=1", "HORA_SIZE=3", "HORA_LOCAL_RANK=1",
                               "HORA_LOCAL_SIZE=3", "HORA_CROSS_RANK=0", "HORA_CROSS_SIZE=1",
                               "HORA_COORDINATOR=127.0.0.1:4000", "HORA_SECRET_FD=7", "OMP_NUM_THREADS=2"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_COORDINATOR_FD="))));
}

TEST(RankEnvironment, ForgetsAnOuterJob) {
  const auto settings =
      rank_environment({"HORA_RANK=9", "HORA_COORDINATOR_FD=3", "HORA_FUSION_THRESHOLD=1"}, {}, {});
  EXPECT_THAT(settings, Not(Contains("HORA_RANK=9")));
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_COORDINATOR_FD="))));
  EXPECT_THAT(settings, Contains("HORA_FUSION_THRESHOLD=1"));
}

TEST(RankEnvironment, TellsTheRankWhoItIsAsTorchrunDoes) {
  RankFacts facts;
  facts.rank = 1;
  facts.size = 3;
  facts.master_port = 4001;
  const auto settings = rank_environment({}, {}, facts);
  for (const char* expected : {"RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0",
                               "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4001"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
}

TEST(RankEnvironment, ForgetsAnOuterTorchrun) {
  const auto settings =
      rank_environment({"RANK=9", "WORLD_SIZE=10", "MASTER_PORT=29500", "GROUP_WORLD_SIZE=2", "ROLE_RANK=9",
                        "TORCHELASTIC_USE_AGENT_STORE=True", "RANKS=5"},
                       {}, {});
  for (const char* foreign : {"RANK=9", "WORLD_SIZE=10", "MASTER_PORT=29500"})
    EXPECT_THAT(settings, Not(Contains(foreign)));
  for (const char* foreign : {"GROUP_WORLD_SIZE=", "ROLE_RANK=", "TORCHELASTIC_"})
    EXPECT_THAT(settings, Each(Not(StartsWith(foreign))));
  EXPECT_THAT(settings, Contains("RANKS=5"));
}

TEST(RankEnvironment, TheUserChoosesWhereTorchMeets) {
  Options options;
  options.environment = {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  RankFacts facts;
  facts.master_port = 4001;
  const auto settings = rank_environment({"MASTER_PORT=1"}, options, facts);
  EXPECT_THAT(settings, Contains("MASTER_ADDR=localhost"));
  EXPECT_THAT(settings, Contains("MASTER_PORT=29500"));
  EXPECT_THAT(settings, Not(Contains("MASTER_ADDR=127.0.0.1")));
  EXPECT_THAT(settings, Not(Contains("MASTER_PORT=4001")));
}

TEST(RankEnvironment, TheUsersChoicesCount) {
  Options options;
  options.environment = {{"A", "new"}, {"OMP_NUM_THREADS", "5"}};
  const auto settings = rank_environment({"A=old"}, options, {});
  EXPECT_THAT(settings, Contains("A=new"));
  EXPECT_THAT(settings, Not(Contains("A=old")));
  EXPECT_THAT(settings, Contains("OMP_NUM_THREADS=5"));
  EXPECT_THAT(settings, Not(Contains("OMP_NUM_THREADS=1")));
}

TEST(RankEnvironment, SpeaksHorovodWhereThatIsWanted) {
  Options options;
  RankFacts facts;
  facts.rank = 1;
  facts.size = 3;
  const std::vector<std::string> inherited{"HOROVOD_RANK=9", "PYTHONPATH=/mine", "HOROVOD_LOG_LEVEL=info"};
  EXPECT_THAT(rank_environment(inherited, options, facts), Contains("HOROVOD_RANK=9"));

  options.horovod_folder = "/hora/_horovod";
  const auto settings = rank_environment(inherited, options, facts);
  for (const char* expected : {"HOROVOD_RANK=1", "HOROVOD_SIZE=3", "HOROVOD_LOCAL_RANK=1",
                               "HOROVOD_LOCAL_SIZE=3", "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=1",
                               "PYTHONPATH=/hora/_horovod:/mine", "HOROVOD_LOG_LEVEL=info"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
  EXPECT_THAT(settings, Not(Contains("HOROVOD_RANK=9")));
  EXPECT_THAT(settings, Not(Contains("PYTHONPATH=/mine")));
  EXPECT_THAT(rank_environment({}, options, facts), Contains("PYTHONPATH=/hora/_horovod"));
}

TEST(FindProgram, LooksInThePath) { EXPECT_THAT(find_program("sh"), StartsWith("/")); }

}  // namespace
}  // namespace hora
