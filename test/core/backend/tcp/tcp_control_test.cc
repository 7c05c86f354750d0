// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_control.h"

#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hora {
namespace {

TEST(TcpControl, ARankThatLeavesEarlyIsALetterToWhoeverStillListens) {
  auto worlds = connect_tcp_ranks(loopback_configs(2));
  worlds[1].control.reset();
  const auto letter = worlds[0].control->receive(TimePoint::max());
  ASSERT_TRUE(letter);
  EXPECT_TRUE(letter->bytes.empty());
  EXPECT_NE(letter->loss.message.find("has left the job"), std::string::npos);
}

TEST(TcpControl, AProcessThatIsKilledIsNamedThoughItsChildHoldsItsSockets) {
  const auto configs = loopback_configs(2);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    const World world = connect_tcp_control(configs[1], Clock::now() + std::chrono::seconds(20));
    if (::fork() == 0) {  // as a loader's worker would
      ::pause();
      ::_exit(0);
    }
    ::setpgid(0, 0);
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  ::setpgid(rank, rank);
  const World world = connect_tcp_control(configs[0], Clock::now() + std::chrono::seconds(20));
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(rank, SIGKILL);
  const auto letter = world.control->receive(TimePoint::max());
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->from, 1);
  EXPECT_NE(letter->loss.message.find("rank 1 (pid " + std::to_string(rank)), std::string::npos);
  EXPECT_NE(letter->loss.message.find("its process ended"), std::string::npos);
  ::waitpid(rank, nullptr, 0);
  ::kill(-rank, SIGKILL);
}

}  // namespace
}  // namespace hora
