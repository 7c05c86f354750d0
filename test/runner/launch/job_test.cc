// SPDX-License-Identifier: Apache-2.0
// The tests of a job that need no hrun of their own; test/job has the rest.
#include "runner/launch/job.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <fcntl.h>
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
