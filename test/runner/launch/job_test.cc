// SPDX-License-Identifier: Apache-2.0
// The tests of a job that need no hrun of their own; test/job has the rest.
#include "runner/launch/job.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace hora::hrun {
namespace {

TEST(RunJob, SaysWhereOutputCannotBeWritten) {
  Options options;
  options.ranks = 1;
  options.shares = place({{"localhost", 1}}, 1, false);
  options.command = {"/bin/true"};
  options.output_directory = "/proc/nonexistent";
  EXPECT_EXIT(
      {
        try {
          run_job(options);
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(1);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(1), "cannot make the directory /proc/nonexistent");
}

TEST(RunJob, LeavesNoAgentBehindWhenAnotherHostCannotBeReached) {
  EXPECT_TRUE(in_own_process([] {
    const auto mark =
        std::filesystem::temp_directory_path() / ("other_agent_has_ended_" + std::to_string(::getpid()));
    Options options;
    options.ranks = 2;
    options.shares = place({{"b", 1}, {"c", 1}}, 2, false);
    options.command = {"/bin/true"};
    const auto explain = [](const std::string& words, int) { return words; };
    options.remote_hosts = {{"b", {"/bin/sh", "-c", HORA_HRUN " --agent; : > " + mark.string()}, explain},
                            {"c", {"/bin/sh", "-c", "echo no way in >&2; exit 1"}, explain}};
    EXPECT_THROW(run_job(options), Error);
    EXPECT_TRUE(std::filesystem::remove(mark));
  }));
}

/// A member of an elastic job, in bash, which joins. `take` passes over one message. `tell` sends bytes;
/// `formed` and `report` send these messages for a generation.
constexpr const char* kMember = R"(
  take() { dd bs=4096 count=1 status=none <&$HORA_MEMBER_FD >/dev/null; }
  tell() { printf "$1" >&$HORA_MEMBER_FD; }
  formed() { tell "\\4\\$1"; }
  report() { tell "\\3\\5\\1\\$1\\0\\0\\1\\0\\1\\0"; }
  tell '\0\5'
)";

Options elastic_job(int ranks, const std::string& script, const std::vector<HostSlots>& hosts) {
  Options options;
  options.ranks = ranks;
  GenerationPolicy policy;
  policy.members.max_members = policy.members.first_members = ranks;
  options.elastic = policy;
  options.hosts = hosts;
  options.shares = place(hosts, ranks, false);
  options.command = {"/bin/bash", "-c", kMember + script};
  const auto explain = [](const std::string& words, int) { return words; };
  for (const auto& share : options.shares) {
    if (share.host != "localhost")
      options.remote_hosts.push_back({share.host, {"/bin/sh", "-c", HORA_HRUN " --agent"}, explain});
  }
  return options;
}

TEST(RunJob, OfAnElasticJobGoesOnWithoutARankOnAnyHost) {
  constexpr const char* kScript = R"(
    take; formed 1; take
    if [ $HORA_RANK = 1 ]; then kill -9 $$; fi
    take; report 1; take; formed 2; take; tell '\6'
  )";
  for (const std::vector<HostSlots>& hosts :
       {std::vector<HostSlots>{{"localhost", 3}}, {{"localhost", 1}, {"b", 2}}}) {
    EXPECT_TRUE(in_own_process([&] {
      testing::internal::CaptureStderr();
      EXPECT_EQ(run_job(elastic_job(3, kScript, hosts)), 0);
      const std::string text = testing::internal::GetCapturedStderr();
      EXPECT_THAT(text, testing::HasSubstr("hrun: rank 1 (pid "));
      EXPECT_THAT(
          text, testing::HasSubstr(
                    ") was killed by signal 9 (Killed); the job goes on with 2 of 3 ranks (generation 2)\n"));
      EXPECT_THAT(text, testing::HasSubstr("hrun: 1 of 3 ranks was lost: rank 1 after "));
    }));
  }
}

TEST(RunJob, OfAnElasticJobEndsAStoppedRankAndThenTheJobWithoutItsState) {
  EXPECT_TRUE(in_own_process([] {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_job(elastic_job(1, "take; formed 1; take; kill -STOP $$; sleep 1000", {{"localhost", 1}})),
              74);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_THAT(text, testing::HasSubstr("hrun: the job cannot go on: the state of the training is lost"));
    EXPECT_THAT(text, testing::HasSubstr(" failed first: it was ended by hrun: it is stopped\n"));
  }));
}

TEST(RunJob, OfAnElasticJobThatCannotBeginHasTheExitCodeOfTheRank) {
  EXPECT_TRUE(in_own_process([] {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_job(elastic_job(2, "[ $HORA_RANK = 1 ] && exit 7; take", {{"localhost", 2}})), 7);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("hrun: the job cannot begin"));
  }));
}

TEST(RunJob, FailsWhenItsOutputCannotBeWritten) {
  EXPECT_TRUE(in_own_process([] {
    const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(full.fd(), STDOUT_FILENO), STDOUT_FILENO);
    Options options;
    options.ranks = 1;
    options.shares = place({{"localhost", 1}}, 1, false);
    options.command = {"/bin/echo", "words"};
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_job(options), 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "hrun: cannot write its output any further: No space left on device\n");
  }));
}

}  // namespace
}  // namespace hora::hrun
