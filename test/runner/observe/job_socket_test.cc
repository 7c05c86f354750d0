// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/job_socket.h"

#include "test/runner/own_process.h"
#include "test/support/files.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hora::hrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class JobSockets : public testing::Test {
 protected:
  JobSockets() { std::filesystem::remove_all(folder_); }
  ~JobSockets() override { std::filesystem::remove_all(folder_); }

  /// The process that was killed.
  [[nodiscard]] pid_t leave_dead(const std::string& job) const {
    const pid_t killed = ::fork();
    if (killed == 0) {
      const JobSocket other = open(job);
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(killed, nullptr, 0);
    return killed;
  }
  [[nodiscard]] JobSocket open(const std::string& job) const { return {Folder::private_at(folder_), job}; }

  const std::string folder_ =
      (std::filesystem::path(testing::TempDir()) / ("hora-jobs-" + std::to_string(::getpid()))).string();
};

TEST_F(JobSockets, AreFoundAsLongAsTheyLiveAndLeaveNothing) {
  EXPECT_THAT(running_jobs(folder_), IsEmpty());
  {
    const JobSocket one = open("0123abcd");
    const JobSocket other = open("00000000");
    EXPECT_THAT(running_jobs(folder_), ElementsAre(RunningJob{"00000000", ::getpid(), other.path()},
                                                   RunningJob{"0123abcd", ::getpid(), one.path()}));
    struct stat found{};
    EXPECT_EQ(::stat(folder_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(JobSockets, DoNotTellOtherUsersTheJobsName) {
  const JobSocket one = open("0123abcd");
  const std::string shown = text_of_file("/proc/net/unix");
  EXPECT_THAT(shown, HasSubstr(folder_ + "/."));
  EXPECT_THAT(shown, Not(HasSubstr("0123abcd")));
}

TEST_F(JobSockets, OfHrunsThatWereKilledAreRemoved) {
  const JobSocket one = open("0123abcd");
  const pid_t killed = leave_dead("4567abcd");
  const std::string stale = folder_ + "/4567abcd." + std::to_string(killed);
  EXPECT_TRUE(std::filesystem::exists(stale));
  EXPECT_EQ(running_jobs(folder_).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(stale));
  std::ofstream(folder_ + "/notes").close();
  EXPECT_GT(leave_dead("4567abcd"), 0);
  const JobSocket next = open("89ab0000");  // as the next hrun does
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3)
      << "both sockets, and what is none";
}

TEST_F(JobSockets, ThatDoNotListenYetAreLeftAlone) {
  const JobSocket one = open("0123abcd");
  const std::string unfinished = folder_ + "/.0123456789abcdef";
  std::ofstream(unfinished).close();
  std::ofstream(folder_ + "/notes").close();
  EXPECT_EQ(running_jobs(folder_).size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(unfinished));
  std::filesystem::last_write_time(unfinished,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(running_jobs(folder_).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(unfinished)) << "its hrun was killed";
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/notes"));
}

TEST_F(JobSockets, AreLookedForInNoFolderThatIsOpenToOthers) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_THROW(running_jobs(folder_), Error);
}

TEST_F(JobSockets, MayHaveLongPaths) {
  const Folder deep = Folder::private_at(folder_).inner(std::string(100, 'x'));
  const JobSocket socket(deep, "0123abcd");
  const auto jobs = running_jobs(deep.path());
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_TRUE(connect_to_job(jobs.front().path));
}

TEST_F(JobSockets, AreInTheFolderOfTheSessionIfThereIsOneElseInTmp) {
  EXPECT_TRUE(in_own_process([this] {
    ::unsetenv("XDG_RUNTIME_DIR");
    const JobSocket first = open_job_socket("0123abcd");
    const std::string otherwise = std::filesystem::path(first.path()).parent_path();
    EXPECT_THAT(otherwise, StartsWith("/tmp/hora-" + std::to_string(::geteuid())));
    EXPECT_EQ(job_folders().front(), otherwise);
    const auto in_tmp = job_folders();
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    EXPECT_EQ(job_folders(), in_tmp) << "as where the variable came from another host";
    std::filesystem::create_directory(folder_);
    const JobSocket here = open_job_socket("0123abcd");
    EXPECT_EQ(here.path(), folder_ + "/hora/0123abcd." + std::to_string(::getpid()));
    EXPECT_EQ(job_folders().front(), folder_ + "/hora");
    EXPECT_EQ(job_folders().size(), in_tmp.size() + 1);
    ::setenv("XDG_RUNTIME_DIR", "/proc", 1);
    const JobSocket there = open_job_socket("0123abcd");
    EXPECT_EQ(there.path(), otherwise + "/0123abcd." + std::to_string(::getpid()));
  }));
}

}  // namespace
}  // namespace hora::hrun
