// SPDX-License-Identifier: Apache-2.0
#include "core/base/folder.h"

#include "test/support/files.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr unsigned kOtherUser = 65534;

/// A directory that all users may write to, as /tmp is, and a file of this user's that other users are after.
class Folders : public testing::Test {
 protected:
  Folders() {
    std::filesystem::create_directories(shared_);
    std::filesystem::permissions(shared_, std::filesystem::perms(01777));
    std::ofstream(target_) << "mine";
  }
  ~Folders() override { std::filesystem::remove_all(shared_); }

  static std::string trouble(const std::function<void()>& does) {
    try {
      does();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unavailable);
      return error.what();
    }
  }
  static unsigned mode(const std::string& path) {
    struct stat found{};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
  }

  const std::string shared_ = testing::TempDir() + "hora-folders-" + std::to_string(::getpid());
  const std::string usual_ = shared_ + "/hora-" + std::to_string(::geteuid());
  const std::string target_ = shared_ + "/target";
};

TEST_F(Folders, OfAUserAreForItAloneAndFoundAgain) {
  EXPECT_THAT(folders_of_user(shared_), IsEmpty());
  const Folder folder = Folder::of_user(shared_);
  EXPECT_EQ(folder.path(), usual_);
  EXPECT_EQ(mode(usual_), 0700u);
  const Folder inner = folder.inner("dumps");
  inner.write("file", "text");
  EXPECT_EQ(text_of_file(usual_ + "/dumps/file"), "text");
  EXPECT_EQ(mode(usual_ + "/dumps"), 0700u);
  EXPECT_EQ(mode(usual_ + "/dumps/file"), 0600u);
  EXPECT_EQ(Folder::of_user(shared_).path(), usual_);
  std::filesystem::create_directory(usual_ + "0");  // of a user whose number begins like this one's
  EXPECT_THAT(folders_of_user(shared_), ElementsAre(usual_));
}

/// Each leaves something under the usual name.
class Planted : public Folders, public testing::WithParamInterface<const char*> {
 protected:
  void plant() const {
    const std::string what = GetParam();
    const bool folder = what == "another user's folder" || what == "an open folder";
    if (what == "a link to a file") std::filesystem::create_symlink(target_, usual_);
    if (what == "a link to a folder") std::filesystem::create_symlink(shared_, usual_);
    if (what == "a file") std::ofstream(usual_) << "theirs";
    if (what == "a pipe") {
      EXPECT_EQ(::mkfifo(usual_.c_str(), 0666), 0);
    }
    if (folder) {
      std::filesystem::create_directory(usual_);
      std::filesystem::create_symlink(target_, usual_ + "/dumps");
      std::filesystem::permissions(usual_, std::filesystem::perms(0777));
    }
    if (what == "another user's folder") {
      EXPECT_EQ(::chown(usual_.c_str(), kOtherUser, kOtherUser), 0);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Each, Planted,
                         testing::Values("a link to a file", "a link to a folder", "a file", "a pipe",
                                         "an open folder", "another user's folder"));

TEST_P(Planted, ThingsAreNotUsedButAnotherFolderIs) {
  if (GetParam() == std::string("another user's folder") && ::geteuid() != 0)
    GTEST_SKIP() << "only root can make one";
  plant();
  EXPECT_NE(trouble([&] { static_cast<void>(Folder::private_at(usual_)); }), "");
  const Folder other = Folder::of_user(shared_);
  EXPECT_THAT(other.path(), StartsWith(usual_ + "-"));
  EXPECT_EQ(mode(other.path()), 0700u);
  other.inner("dumps").write("file", "text");
  EXPECT_EQ(text_of_file(target_), "mine");
  EXPECT_EQ(Folder::of_user(shared_).path(), other.path()) << "all processes take the same one";
  EXPECT_THAT(folders_of_user(shared_), ElementsAre(other.path()));
}

TEST_F(Folders, OfAnotherUserIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  std::filesystem::create_directory(usual_);
  ASSERT_EQ(::chown(usual_.c_str(), kOtherUser, kOtherUser), 0);
  EXPECT_THAT(trouble([&] { static_cast<void>(Folder::private_at(usual_)); }),
              HasSubstr("belongs to user 65534"));
}

TEST_F(Folders, ThatTheUserNamesMayBeSharedAndNoLinkInThemIsFollowed) {
  const std::string named = shared_ + "/named";
  std::filesystem::create_directory(named);
  std::filesystem::permissions(named, std::filesystem::perms(0777));
  std::filesystem::create_symlink(target_, named + "/rank0.json");
  std::filesystem::create_symlink(target_, named + "/rank0.json.part");
  Folder::named(named + "//").write("rank0.json", "text");
  EXPECT_EQ(text_of_file(target_), "mine");
  EXPECT_EQ(text_of_file(named + "/rank0.json"), "text");
  EXPECT_EQ(mode(named + "/rank0.json"), 0600u);
  EXPECT_EQ(mode(named), 0777u);
  std::filesystem::create_directory(named + "/rank1.json");
  EXPECT_THAT(trouble([&] { Folder::named(named).write("rank1.json", "text"); }),
              HasSubstr(named + "/rank1.json: Is a directory"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(named), {}), 3) << "nothing unfinished is left";
}

TEST_F(Folders, BehindLinksOfTheUsersOwnAreUsedAndBehindOthersNot) {
  const std::string link = shared_ + "/link";
  std::filesystem::create_directory(shared_ + "/named");
  std::filesystem::create_directory_symlink("named/", link);
  Folder::named(link + "/").write("file", "text");
  EXPECT_EQ(text_of_file(shared_ + "/named/file"), "text");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's";
  ASSERT_EQ(::lchown(link.c_str(), kOtherUser, kOtherUser), 0);
  for (const std::string& path : {link, link + "/"}) {
    EXPECT_THAT(trouble([&] { static_cast<void>(Folder::named(path)); }),
                HasSubstr(link + ": it is a link of another user's"));
  }
}

TEST_F(Folders, ThatCannotBeUsedAreTold) {
  EXPECT_THAT(trouble([&] { static_cast<void>(Folder::named(target_)); }), HasSubstr("Not a directory"));
  EXPECT_THAT(trouble([&] { static_cast<void>(Folder::named("/no/where")); }), HasSubstr("No such file"));
  EXPECT_THAT(trouble([&] { static_cast<void>(Folder::of_user("/no/where")); }), HasSubstr("No such file"));
}

TEST_F(Folders, TakeFilesThatAreWrittenAnew) {
  const Folder folder = Folder::named(shared_ + "/named");
  folder.create("file") << "text";
  folder.create("file") << "more";
  EXPECT_EQ(text_of_file(folder.path() + "/file"), "more");
  std::filesystem::create_symlink("../target", folder.path() + "/link");
  folder.create("link") << "text";
  EXPECT_EQ(text_of_file(target_), "text");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's";
  ASSERT_EQ(::lchown((folder.path() + "/link").c_str(), kOtherUser, kOtherUser), 0);
  EXPECT_FALSE(folder.create("link"));
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(text_of_file(target_), "text");
}

TEST_F(Folders, HoldFilesThatTheUserNamesAndLinksOfTheUsersOwn) {
  std::filesystem::create_directory(shared_ + "/named");
  std::filesystem::create_symlink("../target", shared_ + "/named/link");
  std::filesystem::create_symlink(shared_ + "/named/link", shared_ + "/chain");
  create_file(shared_ + "/chain") << "text";
  EXPECT_EQ(text_of_file(target_), "text");
  EXPECT_TRUE(create_file("/dev/stderr")) << "links of the system's";
  std::filesystem::create_symlink(shared_ + "/loop", shared_ + "/loop");
  EXPECT_FALSE(create_file(shared_ + "/loop"));
  EXPECT_FALSE(create_file("/no/where"));
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Folders, HoldNoLinksOfOtherUsersThatAreFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  std::filesystem::permissions(shared_, std::filesystem::perms(0777));  // else the kernel may refuse it
  std::filesystem::create_symlink(target_, shared_ + "/theirs");
  ASSERT_EQ(::lchown((shared_ + "/theirs").c_str(), kOtherUser, kOtherUser), 0);
  std::filesystem::create_symlink(shared_ + "/theirs", shared_ + "/chain");
  for (const char* name : {"/theirs", "/chain"}) {
    EXPECT_FALSE(create_file(shared_ + name)) << name;
    EXPECT_EQ(errno, EACCES);
  }
  EXPECT_EQ(text_of_file(target_), "mine");
}

TEST_F(Folders, StayTheSameWhenTheirNameIsTaken) {
  const Folder folder = Folder::named(shared_ + "/named");
  std::filesystem::rename(shared_ + "/named", shared_ + "/moved");
  std::filesystem::create_directory(shared_ + "/named");
  folder.write("file", "text");
  EXPECT_EQ(text_of_file(shared_ + "/moved/file"), "text");
  EXPECT_FALSE(std::filesystem::exists(shared_ + "/named/file"));
}

TEST_F(Folders, InAnotherHaveNoPathForAName) {
  const Folder folder = Folder::of_user(shared_);
  for (const char* name : {"../out", "a/b", "/tmp"})
    EXPECT_NE(trouble([&] { static_cast<void>(folder.inner(name)); }), "") << name;
}

TEST_F(Folders, KeepTheNewestAndLeaveLinksAlone) {
  const Folder folder = Folder::of_user(shared_);
  for (int i = 0; i < 4; ++i) {
    const Folder inner = folder.inner(std::to_string(i));
    inner.write("file", "text");
    std::filesystem::create_symlink(target_, inner.path() + "/link");
    std::filesystem::last_write_time(
        inner.path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  std::filesystem::create_directory_symlink(shared_, folder.path() + "/link");
  folder.keep_newest(2);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(std::filesystem::exists(folder.path() + "/" + std::to_string(i)), i >= 2) << i;
  EXPECT_EQ(text_of_file(target_), "mine");
}

}  // namespace
}  // namespace hora
