// SPDX-License-Identifier: Apache-2.0
#include "runner/job_socket.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class JobSockets : public testing::Test {
 protected:
  JobSockets() { std::filesystem::remove_all(folder_); }
  ~JobSockets() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string trouble() const {
    try {
      check_job_folder(folder_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  const std::string folder_ =
      (std::filesystem::path(testing::TempDir()) / ("hora-jobs-" + std::to_string(::getpid()))).string();
};

TEST_F(JobSockets, AreFoundAsLongAsTheyLiveAndLeaveNothing) {
  EXPECT_THAT(running_jobs(folder_), IsEmpty());
  {
    const JobSocket one(folder_, "0123abcd");
    const JobSocket other(folder_, "00000000");
    EXPECT_THAT(running_jobs(folder_), ElementsAre(RunningJob{"00000000", ::getpid(), other.path()},
                                                   RunningJob{"0123abcd", ::getpid(), one.path()}));
    struct stat found {};
    EXPECT_EQ(::stat(folder_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(JobSockets, OfHrunsThatWereKilledAreRemoved) {
  const JobSocket one(folder_, "0123abcd");
  const pid_t killed = ::fork();
  if (killed == 0) {
    const JobSocket other(folder_, "4567abcd");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(killed, nullptr, 0);
  const std::string stale = folder_ + "/4567abcd." + std::to_string(killed);
  EXPECT_TRUE(std::filesystem::exists(stale));
  EXPECT_EQ(running_jobs(folder_).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(JobSockets, ThatDoNotListenYetAreLeftAlone) {
  const JobSocket one(folder_, "0123abcd");
  const std::string unfinished = folder_ + "/.4567abcd.17";
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

TEST_F(JobSockets, AreMadeInNoFolderThatIsOpenToOthers) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_THAT(trouble(), HasSubstr("is open to others (mode 0755): remove it"));
  EXPECT_THROW(JobSocket(folder_, "0123abcd"), Error);
  EXPECT_THROW(running_jobs(folder_), Error);
}

TEST_F(JobSockets, AreMadeInNoFolderOfAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms(0700));
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(trouble(), HasSubstr("belongs to user 65534"));
  EXPECT_THROW(JobSocket(folder_, "0123abcd"), Error);
}

TEST_F(JobSockets, AreMadeInNoLinkAndNoFile) {
  std::filesystem::create_directory_symlink("/tmp", folder_);
  EXPECT_THAT(trouble(), HasSubstr("is no folder"));
  std::filesystem::remove(folder_);
  std::ofstream(folder_).close();
  EXPECT_THAT(trouble(), HasSubstr("is no folder"));
}

TEST_F(JobSockets, NeedAPathThatFits) {
  std::filesystem::create_directory(folder_);
  EXPECT_THROW(JobSocket(folder_ + "/" + std::string(100, 'x'), "0123abcd"), Error);
}

TEST_F(JobSockets, AreInTheFolderOfTheSessionIfThereIsOneElseInTmp) {
  EXPECT_TRUE(in_own_process([this] {
    const std::string otherwise = "/tmp/hora-" + std::to_string(::geteuid());
    ::unsetenv("XDG_RUNTIME_DIR");
    EXPECT_THAT(job_folders(), ElementsAre(otherwise));
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    EXPECT_THAT(job_folders(), ElementsAre(otherwise)) << "as where the variable came from another host";
    std::filesystem::create_directory(folder_);
    EXPECT_THAT(job_folders(), ElementsAre(folder_ + "/hora", otherwise));
    const JobSocket here = open_job_socket("0123abcd");
    EXPECT_EQ(here.path(), folder_ + "/hora/0123abcd." + std::to_string(::getpid()));
    ::setenv("XDG_RUNTIME_DIR", "/proc", 1);
    const JobSocket there = open_job_socket("0123abcd");
    EXPECT_EQ(there.path(), otherwise + "/0123abcd." + std::to_string(::getpid()));
  }));
}

}  // namespace
}  // namespace hora
