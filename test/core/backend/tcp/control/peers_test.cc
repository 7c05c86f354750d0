// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/peers.h"

#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

#include <map>

namespace hora::tcp {
namespace {

/// The peers of rank 1 of a tree of nine, with two children each, and the other ends.
class PeersTest : public testing::Test {
 protected:
  PeersTest() {
    const Member self{1, 0, "a", ""};
    for (const int rank : {0, 2, 3}) {
      auto [sessions_here, sessions_there] = make_sessions();
      auto [here, there] = socket_pair();
      Member member{rank, 0, "a", ""};
      if (rank == 0) {
        peers_.add(member, Connection{std::move(here), std::move(sessions_here)}, self, Clock::now());
      } else {
        peers_.add(member, Connection{std::move(here), std::move(sessions_here)}, Clock::now());
      }
      others_.try_emplace(rank, self, Connection{std::move(there), std::move(sessions_there)}, Clock::now());
    }
  }

  /// The kinds of what a rank has got.
  std::vector<FrameKind> got(int rank) {
    std::vector<FrameKind> kinds;
    others_.at(rank).read([&](const Frame& frame) { kinds.push_back(frame.kind); });
    return kinds;
  }

  const TreePosition position_{0, 9, {2, 3}};
  EventFd wake_up_;
  Peers peers_{position_, wake_up_};
  std::map<int, Peer> others_;
};

TEST_F(PeersTest, TellTheStarAloneAndOneRankAlone) {
  peers_.tell_star(FrameKind::failure, {});
  peers_.tell_star(FrameKind::failure, {}, 0);
  peers_.tell(3, FrameKind::message, Bytes(1));
  EXPECT_EQ(got(0), std::vector{FrameKind::failure});
  EXPECT_EQ(got(2), std::vector<FrameKind>());
  EXPECT_EQ(got(3), std::vector{FrameKind::message});
}

TEST_F(PeersTest, HandOnToTheChildBelowWhichARankIs) {
  peers_.hand_on(RankSet(8, 9), Bytes(1));  // below the second child
  EXPECT_EQ(got(2), std::vector<FrameKind>());
  EXPECT_EQ(got(3), std::vector{FrameKind::announcement});
  peers_.hand_on(RankSet(0, 9), Bytes(1));
  EXPECT_EQ(got(0), std::vector<FrameKind>());
  EXPECT_EQ(got(2), std::vector{FrameKind::announcement});
}

TEST_F(PeersTest, BeatAndSendALeaveOnAllConnectionsThatAreThere) {
  peers_.beat();
  for (auto& peer : peers_) {
    if (peer.member().rank == 2) peer.close();
  }
  peers_.beat();
  peers_.send_leave();
  EXPECT_FALSE(peers_.have_written());
  for (auto& peer : peers_) peer.flush();
  EXPECT_TRUE(peers_.have_written());
  EXPECT_EQ(got(0), (std::vector{FrameKind::beat, FrameKind::beat, FrameKind::leave}));
  EXPECT_EQ(got(2), std::vector{FrameKind::beat});
  EXPECT_FALSE(peers_.are_closed());
  for (auto& peer : peers_) peer.close();
  EXPECT_TRUE(peers_.are_closed());
}

TEST_F(PeersTest, WaitForAllSocketsUntilTheFirstIsSilent) {
  const TimePoint start = Clock::now();
  const Heartbeat heartbeat(std::chrono::seconds(5), start);
  for (auto& peer : peers_) peer.set_heard(start + std::chrono::seconds(peer.member().rank));
  std::vector<pollfd> events;
  EXPECT_EQ(peers_.watch(events, kNobody, heartbeat), start + std::chrono::seconds(5));
  EXPECT_EQ(events.size(), 3U);
  EXPECT_FALSE(peers_.process_has_ended(kNobody));
}

}  // namespace
}  // namespace hora::tcp
