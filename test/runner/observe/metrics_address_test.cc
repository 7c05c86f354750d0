// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/metrics_address.h"

#include "runner/observe/job_socket.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hora::hrun {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_metrics_address(text);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
}

TEST(MetricsAddress, IsAPathOrAPortOfThisMachine) {
  EXPECT_EQ(parse_metrics_address("unix:/run/x"), (MetricsAddress{"/run/x"}));
  EXPECT_EQ(parse_metrics_address("9400"), (MetricsAddress{"", "127.0.0.1", 9400}));
  EXPECT_EQ(parse_metrics_address("127.0.0.1:9400"), (MetricsAddress{"", "127.0.0.1", 9400}));
  EXPECT_EQ(parse_metrics_address("localhost:0"), (MetricsAddress{"", "127.0.0.1", 0}));
  EXPECT_EQ(parse_metrics_address("[::1]:9400"), (MetricsAddress{"", "::1", 9400}));
}

TEST(MetricsAddress, IsNoneThatOtherMachinesReach) {
  for (const char* text :
       {"0.0.0.0:9400", "10.1.0.7:9400", "node7:9400", "[::]:9400", ":9400", "127.0.0.1.example.org:80"})
    EXPECT_THAT(refusal(text), HasSubstr("may be reached from other machines")) << text;
}

TEST(MetricsAddress, IsRefusedWithWhatIsAccepted) {
  for (const char* text : {"", "x", "65536", "127.0.0.1:", "127.0.0.1:94x", "::1", "-1"})
    EXPECT_THAT(refusal(text), HasSubstr("say unix:/path")) << text;
  EXPECT_THAT(refusal("unix:x"), HasSubstr("begins with a slash"));
  EXPECT_THAT(refusal("unix:/" + std::string(200, 'x')), HasSubstr("too long"));
}

TEST(MetricsSocket, ListensOnLoopbackOnly) {
  MetricsSocket socket({"", "127.0.0.1", 0});
  EXPECT_TRUE(socket.address().starts_with("127.0.0.1:"));
  const int port = std::stoi(socket.address().substr(10));
  EXPECT_GT(port, 0);
  EXPECT_THROW(MetricsSocket({"", "127.0.0.1", static_cast<std::uint16_t>(port)}), Error) << "it is taken";
}

TEST(MetricsSocket, OfAPathIsForThisUserAndGoesWithIt) {
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("hora-metrics-" + std::to_string(::getpid()));
  {
    const MetricsSocket socket({path});
    EXPECT_EQ(socket.address(), "unix:" + path.string());
    struct stat found{};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    EXPECT_TRUE(connect_to_job(path));
    EXPECT_THROW(MetricsSocket({path}), Error) << "it is taken";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MetricsSocket, ReplacesWhatAKilledHrunHasLeftAndNothingElse) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("hora-stale-" + std::to_string(::getpid()));
  const pid_t killed = ::fork();
  if (killed == 0) {
    const MetricsSocket socket({path});
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(killed, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  {
    const MetricsSocket socket({path});
  }
  std::ofstream(path) << "precious";
  EXPECT_THROW(MetricsSocket({path}), Error);
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hora::hrun
