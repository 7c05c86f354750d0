// SPDX-License-Identifier: Apache-2.0
#include "core/base/nearness.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

namespace hora {
namespace {

CoreSet cores(std::initializer_list<std::size_t> numbers) {
  CoreSet set{};
  for (const std::size_t core : numbers) set[core / 64] |= std::uint64_t{1} << core % 64;
  return set;
}

/// A folder as the system has it for two sockets of two caches of two cores with two threads each.
class NearnessTest : public testing::Test {
 protected:
  NearnessTest() {
    for (std::size_t core = 0; core < 16; ++core) {
      const std::size_t first = core % 8 / 2 * 2;
      write(core, "cache/index0/shared_cpu_list", std::to_string(core));
      write(core, "cache/index1/shared_cpu_list",
            std::to_string(first) + "-" + std::to_string(first + 1) + "," + std::to_string(first + 8) + "-" +
                std::to_string(first + 9));
      write(core, "topology/package_cpus_list", core % 8 < 4 ? "0-3,8-11" : "4-7,12-15");
    }
  }
  ~NearnessTest() override { std::filesystem::remove_all(folder_); }

  void write(std::size_t core, const std::string& file, const std::string& line) const {
    const auto path = folder_ / ("cpu" + std::to_string(core)) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-nearness-" + std::to_string(::getpid()));
};

TEST_F(NearnessTest, TellsCachesAndSocketsApart) {
  const Nearness first = nearness(cores({0}), folder_.string());
  EXPECT_NE(first.cache, 0u);
  EXPECT_NE(first.socket, 0u);
  EXPECT_EQ(nearness(cores({1, 9}), folder_.string()), first);
  EXPECT_EQ(nearness(cores({2}), folder_.string()).socket, first.socket);
  EXPECT_NE(nearness(cores({2}), folder_.string()).cache, first.cache);
  EXPECT_NE(nearness(cores({4}), folder_.string()).socket, first.socket);
}

TEST_F(NearnessTest, IsNoneOfCoresThatShareNothing) {
  const Nearness wide = nearness(cores({0, 2}), folder_.string());
  EXPECT_EQ(wide.cache, 0u);
  EXPECT_EQ(wide.socket, nearness(cores({0}), folder_.string()).socket);
  EXPECT_EQ(nearness(cores({0, 4}), folder_.string()), Nearness());
  EXPECT_EQ(nearness(cores({}), folder_.string()), Nearness());
}

TEST_F(NearnessTest, IsNoneWhereTheSystemDoesNotSay) {
  EXPECT_EQ(nearness(cores({500}), folder_.string()), Nearness());
  write(0, "topology/package_cpus_list", "what is this");
  EXPECT_EQ(nearness(cores({0}), folder_.string()).socket, 0u);
}

TEST_F(NearnessTest, KnowsTheFormerNameOfASocketsList) {
  std::filesystem::remove(folder_ / "cpu0/topology/package_cpus_list");
  EXPECT_EQ(nearness(cores({0}), folder_.string()).socket, 0u);
  write(0, "topology/core_siblings_list", "0-3,8-11");
  EXPECT_EQ(nearness(cores({0}), folder_.string()).socket, 1u);
}

TEST(Nearness, OfThisThreadCanBeAskedFor) { EXPECT_EQ(nearness(usable_cores()), nearness(usable_cores())); }

}  // namespace
}  // namespace hora
