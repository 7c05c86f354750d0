// SPDX-License-Identifier: Apache-2.0
#include "core/join/secret_file.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hora {
namespace {

/// A file with a mode, for the time of a test.
class File {
 public:
  explicit File(const std::string& contents, mode_t mode = 0600)
      : path_(std::filesystem::temp_directory_path() / fmt::format("hora-secret-{}", ::getpid())) {
    std::ofstream(path_) << contents;
    ::chmod(path_.c_str(), mode);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::string path_;
};

const std::string kRandom = "0123456789abcdefghijklmnopqrstuv";

std::string why_no_secret(const std::string& path) {
  try {
    static_cast<void>(secret_from_file(path, "job"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(SecretFile, GivesEachJobItsOwnSecret) {
  const File file(kRandom);
  const Secret one = secret_from_file(file.path(), "job 1");
  EXPECT_EQ(one, secret_from_file(file.path(), "job 1"));
  EXPECT_NE(one, secret_from_file(file.path(), "job 2"));
  EXPECT_NE(one, Secret{});
}

TEST(SecretFile, MayBeLongerAndReadOnly) {
  Secret shorter{};
  {
    const File file(kRandom, 0400);
    shorter = secret_from_file(file.path(), "job");
  }
  const File file(kRandom + "w");
  EXPECT_NE(secret_from_file(file.path(), "job"), shorter);
}

TEST(SecretFile, MustBeForItsOwnerAlone) {
  for (const mode_t mode : {0640, 0604, 0620}) {
    const File file(kRandom, mode);
    EXPECT_EQ(why_no_secret(file.path()),
              fmt::format("HORA_SECRET_FILE='{0}': others may use it, too (mode {1:04o}): "
                          "chmod 600 {0}",
                          file.path(), mode));
  }
}

TEST(SecretFile, MustBeOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  const File file(kRandom);
  ASSERT_EQ(::chown(file.path().c_str(), 1, static_cast<gid_t>(-1)), 0);
  EXPECT_NE(why_no_secret(file.path()).find("belongs to user 1, but this process runs as user 0"),
            std::string::npos);
}

TEST(SecretFile, MustHaveEnoughInIt) {
  const File file(kRandom.substr(1));
  EXPECT_EQ(why_no_secret(file.path()),
            fmt::format("HORA_SECRET_FILE='{}': has 31 bytes, fewer than 32: make it anew: {}", file.path(),
                        how_to_make_a_secret()));
}

TEST(SecretFile, MustBeAFile) {
  EXPECT_EQ(why_no_secret("/dev/null"), "HORA_SECRET_FILE='/dev/null': not a file");
  EXPECT_EQ(why_no_secret("/nowhere/secret"),
            fmt::format("HORA_SECRET_FILE='/nowhere/secret': No such file or directory; make it: {}",
                        how_to_make_a_secret()));
}

}  // namespace
}  // namespace hora
