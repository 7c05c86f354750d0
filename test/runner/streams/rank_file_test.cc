// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/rank_file.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

namespace hora::hrun {
namespace {

TEST(RankFile, KeepsBytesInAFileOfADirectoryThatItMakes) {
  const auto directory = std::filesystem::temp_directory_path() / ("rank_file_" + std::to_string(::getpid()));
  RankFile file(directory.string(), "stdout");
  EXPECT_EQ(file.write("one\n"), "");
  EXPECT_EQ(file.write("two"), "");
  std::ifstream written(directory / "stdout");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), "one\ntwo") << "at once";
  std::filesystem::remove_all(directory);
}

TEST(RankFile, SaysOnceThatItCannotBeWritten) {
  const auto directory = std::filesystem::temp_directory_path() / ("full_file_" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink("/dev/full", directory / "stderr");
  RankFile file(directory.string(), "stderr");
  EXPECT_THAT(file.write("words"),
              testing::MatchesRegex("cannot write .*/stderr any further: No space left on device"));
  EXPECT_EQ(file.write("words"), "");
  std::filesystem::remove_all(directory);
}

TEST(RankFile, CannotBeMadeWhereThereIsNoDirectory) {
  EXPECT_THROW(RankFile("/proc/nonexistent", "stdout"), Error);
}

TEST(RankFile, MayBeNone) { EXPECT_EQ(RankFile().write("words"), ""); }

}  // namespace
}  // namespace hora::hrun
