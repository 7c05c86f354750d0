// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shared_control.h"

#include "test/support/shared_controls.h"

#include <gtest/gtest.h>

namespace hora::shm {
namespace {

Bytes bytes_of(int number) { return {static_cast<std::byte>(number)}; }

std::optional<ControlEvent> next(Control& control) {
  return control.receive(Clock::now() + std::chrono::seconds(60));
}

TEST(SharedControl, AMessageComesBeforeTheLossOfItsSender) {
  for (int round = 0; round < 20; ++round) {
    const auto controls = shared_controls(loopback_configs(3));
    for (int number = 0; number < 3; ++number) controls[1]->send(0, bytes_of(number));
    controls[1]->fail({Code::internal, "out of luck"});
    for (int number = 0; number < 3; ++number) {
      EXPECT_EQ(expect_message(next(*controls[0]).value()).bytes, bytes_of(number));
    }
    EXPECT_EQ(std::get<PeerLost>(next(*controls[0]).value()).rank, 1);
  }
}

TEST(SharedControl, TheLastAnnouncementComesBeforeTheLeaveOfRankZero) {
  for (int round = 0; round < 20; ++round) {
    auto controls = shared_controls(loopback_configs(2));
    controls[0]->announce(RankSet(1), bytes_of(7));
    std::thread leaves([&] { controls[0].reset(); });
    EXPECT_EQ(expect_message(next(*controls[1]).value()).bytes, bytes_of(7));
    controls[1].reset();
    leaves.join();
  }
}

TEST(SharedControl, MessagesOfBothWaysComeInOrder) {
  const auto controls = shared_controls(loopback_configs(2));
  const Bytes large(100'000, std::byte{1});  // finds no room in the queue
  for (int round = 0; round < 100; ++round) {
    controls[1]->send(0, bytes_of(round));
    controls[1]->send(0, large);
    controls[1]->send(0, bytes_of(round + 1));
    EXPECT_EQ(expect_message(next(*controls[0]).value()).bytes, bytes_of(round));
    EXPECT_EQ(expect_message(next(*controls[0]).value()).bytes, large);
    EXPECT_EQ(expect_message(next(*controls[0]).value()).bytes, bytes_of(round + 1));
  }
}

}  // namespace
}  // namespace hora::shm
