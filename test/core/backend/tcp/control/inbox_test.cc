// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/inbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hora::tcp {
namespace {

int rank_of(const std::optional<ControlEvent>& event) { return std::get<PeerLost>(event.value()).rank; }

TEST(Inbox, KeepsTheOrderAndNeverWaitsPastTheDeadline) {
  Inbox box;
  EXPECT_FALSE(box.receive(TimePoint::min()));
  EXPECT_FALSE(box.receive(Clock::now()));
  box.put(PeerLost{1});
  box.put(PeerLost{2});
  EXPECT_EQ(rank_of(box.receive(TimePoint::min())), 1);
  EXPECT_EQ(rank_of(box.receive(TimePoint::max())), 2);
}

TEST(Inbox, WakesItsReceiverAndNoticesEveryEvent) {
  constexpr int kEvents = 1000;
  Inbox box;
  std::atomic<int> notices = 0;
  box.on_event([&] { ++notices; });
  std::thread sender([&] {
    for (int event = 0; event < kEvents; ++event) box.put(PeerLost{event});
  });
  for (int event = 0; event < kEvents; ++event) EXPECT_EQ(rank_of(box.receive(TimePoint::max())), event);
  sender.join();
  EXPECT_EQ(notices, kEvents);
  box.on_event({});
  box.put(PeerLost{});
  EXPECT_EQ(notices, kEvents);
}

}  // namespace
}  // namespace hora::tcp
