// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

TEST(RankEnvironment, TellsTheRankWhoItIs) {
  RankFacts facts;
  facts.placement = {1, 3, 1, 3, 0, 1, 0};
  facts.coordinator = "127.0.0.1:4000";
  facts.secret_fd = 7;
  facts.news_fd = 8;
  facts.question_fd = 11;
  facts.threads = 2;
  const auto settings = rank_environment({"PATH=/bin"}, "", facts);
  for (const char* expected :
       {"PATH=/bin", "HORA_RANK=1", "HORA_SIZE=3", "HORA_LOCAL_RANK=1", "HORA_LOCAL_SIZE=3",
        "HORA_CROSS_RANK=0", "HORA_CROSS_SIZE=1", "HORA_COORDINATOR=127.0.0.1:4000", "HORA_SECRET_FD=7",
        "HORA_NEWS_FD=8", "HORA_QUESTION_FD=11", "OMP_NUM_THREADS=2", "PYTHONUNBUFFERED=1"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_COORDINATOR_FD="))));
}

TEST(RankEnvironment, TellsARankOfAnElasticJobWhichMemberItIs) {
  RankFacts facts;
  facts.placement = {1, 3, 1, 3, 0, 1, 0};
  facts.member_fd = 9;
  facts.member = 7;
  facts.life_fd = 6;
  const auto settings = rank_environment({}, "", facts);
  EXPECT_THAT(settings, Contains("HORA_MEMBER_FD=9"));
  EXPECT_THAT(settings, Contains("HORA_MEMBER_ID=7"));
  EXPECT_THAT(settings, Contains("HORA_LIFE_FD=6"));
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_NEWS_FD="))));
  facts.member_fd = -1;
  EXPECT_THAT(rank_environment({}, "", facts), Each(Not(StartsWith("HORA_MEMBER_"))));
}

TEST(RankEnvironment, ForgetsAnOuterJob) {
  const auto settings = job_environment(
      {"HORA_RANK=9", "HORA_COORDINATOR_FD=3", "HORA_MEMBER_ID=3", "HORA_FUSION_THRESHOLD=1"}, {});
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_MEMBER_ID="))));
  EXPECT_THAT(settings, Not(Contains("HORA_RANK=9")));
  EXPECT_THAT(settings, Each(Not(StartsWith("HORA_COORDINATOR_FD="))));
  EXPECT_THAT(settings, Contains("HORA_FUSION_THRESHOLD=1"));
}

TEST(RankEnvironment, TellsTheRankWhoItIsAsTorchrunDoes) {
  RankFacts facts;
  facts.placement = {1, 3, 1, 3, 0, 1, 0};
  facts.coordinator = "127.0.0.1:4000";
  facts.master_port = 4001;
  const auto settings = rank_environment({}, "", facts);
  for (const char* expected :
       {"RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0",
        "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4001", "TORCHELASTIC_RUN_ID=hrun:127.0.0.1:4000"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
}

TEST(RankEnvironment, ForgetsAnOuterTorchrun) {
  const auto settings = job_environment({"RANK=9", "WORLD_SIZE=10", "MASTER_PORT=29500", "GROUP_WORLD_SIZE=2",
                                         "ROLE_RANK=9", "TORCHELASTIC_USE_AGENT_STORE=True", "RANKS=5"},
                                        {});
  for (const char* foreign : {"RANK=9", "WORLD_SIZE=10", "MASTER_PORT=29500"})
    EXPECT_THAT(settings, Not(Contains(foreign)));
  for (const char* foreign : {"GROUP_WORLD_SIZE=", "ROLE_RANK=", "TORCHELASTIC_"})
    EXPECT_THAT(settings, Each(Not(StartsWith(foreign))));
  EXPECT_THAT(settings, Contains("RANKS=5"));
}

TEST(RankEnvironment, TheUserChoosesWhereTorchMeets) {
  const Variables chosen{
      {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "digits"}};
  RankFacts facts;
  facts.master_port = 4001;
  const auto settings = rank_environment(job_environment({"MASTER_PORT=1"}, chosen), "", facts);
  EXPECT_THAT(settings, Contains("MASTER_ADDR=localhost"));
  EXPECT_THAT(settings, Contains("MASTER_PORT=29500"));
  EXPECT_THAT(settings, Contains("TORCHELASTIC_RUN_ID=digits"));
  EXPECT_THAT(settings, Not(Contains("MASTER_ADDR=127.0.0.1")));
  EXPECT_THAT(settings, Not(Contains("MASTER_PORT=4001")));
}

TEST(RankEnvironment, TheUsersChoicesCount) {
  const Variables chosen{{"A", "new"}, {"OMP_NUM_THREADS", "5"}, {"PYTHONUNBUFFERED", ""}};
  const auto settings = rank_environment(job_environment({"A=old"}, chosen), "", {});
  EXPECT_THAT(settings, Contains("A=new"));
  EXPECT_THAT(settings, Not(Contains("A=old")));
  EXPECT_THAT(settings, Contains("OMP_NUM_THREADS=5"));
  EXPECT_THAT(settings, Contains("PYTHONUNBUFFERED="));
  EXPECT_THAT(settings, Not(Contains("PYTHONUNBUFFERED=1")));
  EXPECT_THAT(settings, Not(Contains("OMP_NUM_THREADS=1")));
}

TEST(RankEnvironment, SpeaksHorovodWhereThatIsWanted) {
  RankFacts facts;
  facts.placement = {1, 3, 1, 3, 0, 1, 0};
  const std::vector<std::string> inherited{"HOROVOD_RANK=9", "PYTHONPATH=/mine", "HOROVOD_LOG_LEVEL=info"};
  EXPECT_THAT(rank_environment(inherited, "", facts), Contains("HOROVOD_RANK=9"));

  const auto settings = rank_environment(inherited, "/hora/_horovod", facts);
  for (const char* expected : {"HOROVOD_RANK=1", "HOROVOD_SIZE=3", "HOROVOD_LOCAL_RANK=1",
                               "HOROVOD_LOCAL_SIZE=3", "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=1",
                               "PYTHONPATH=/hora/_horovod:/mine", "HOROVOD_LOG_LEVEL=info"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
  EXPECT_THAT(settings, Not(Contains("HOROVOD_RANK=9")));
  EXPECT_THAT(settings, Not(Contains("HOROVOD_ELASTIC=1")));
  facts.member_fd = 9;
  EXPECT_THAT(rank_environment(inherited, "/hora/_horovod", facts), Contains("HOROVOD_ELASTIC=1"));
  EXPECT_THAT(settings, Not(Contains("PYTHONPATH=/mine")));
  EXPECT_THAT(rank_environment({}, "/hora/_horovod", facts), Contains("PYTHONPATH=/hora/_horovod"));
}

TEST(RankEnvironment, TellsTheRankWhereItStandsAmongHosts) {
  RankFacts facts;
  facts.placement = {4, 5, 1, 2, 0, 1, 2};
  facts.coordinator = "10.0.0.1:4000,[fd00::1]:4000,a:4000";
  facts.master_address = "10.0.0.1";
  facts.master_port = 4001;
  const auto settings = rank_environment({}, "/hora", facts);
  for (const char* expected :
       {"HORA_RANK=4", "HORA_SIZE=5", "HORA_LOCAL_RANK=1", "HORA_LOCAL_SIZE=2", "HORA_CROSS_RANK=0",
        "HORA_CROSS_SIZE=1", "HORA_COORDINATOR=10.0.0.1:4000,[fd00::1]:4000,a:4000", "RANK=4", "WORLD_SIZE=5",
        "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4001",
        "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=2", "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=1"}) {
    EXPECT_THAT(settings, Contains(expected));
  }
}

TEST(Session, StaysOnItsMachineUnlessItIsChosen) {
  const std::vector<std::string> job{"PATH=/venv/bin", "SSH_AUTH_SOCK=/tmp/here", "HOSTNAME=here",
                                     "CUDA_VISIBLE_DEVICES=3", "VIRTUAL_ENV=/venv"};
  EXPECT_THAT(without_session(job, {}), ElementsAre("PATH=/venv/bin", "VIRTUAL_ENV=/venv"));
  EXPECT_THAT(without_session(job, {{"CUDA_VISIBLE_DEVICES", "3"}}),
              ElementsAre("PATH=/venv/bin", "CUDA_VISIBLE_DEVICES=3", "VIRTUAL_ENV=/venv"));
}

TEST(Session, IsThatOfTheMachineWhereRanksRun) {
  EXPECT_THAT(
      with_session({"PATH=/venv/bin", "DISPLAY=:7"}, {"PATH=/bin", "HOSTNAME=there", "DISPLAY=:0", "LANG=C"}),
      ElementsAre("PATH=/venv/bin", "DISPLAY=:7", "HOSTNAME=there"));
}

TEST(FindProgram, LooksInThePath) { EXPECT_THAT(find_program("sh"), StartsWith("/")); }

}  // namespace
}  // namespace hora::hrun
