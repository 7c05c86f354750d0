// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/peer.h"

#include "core/base/machine.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace hora::tcp {
namespace {

Bytes bytes_of_size(std::size_t size) { return Bytes(size, std::byte{7}); }

/// A connection between two ranks of this process.
struct Pair {
  Pair() : sessions(make_sessions()) {
    auto [first, second] = socket_pair();
    const TimePoint now = Clock::now();
    one.emplace(Member{1, 11, "a", "b"}, Connection{std::move(first), std::move(sessions.first)}, now);
    two.emplace(Member{2, 12, "a", "b"}, Connection{std::move(second), std::move(sessions.second)}, now);
  }
  std::pair<SessionKeys, SessionKeys> sessions;
  std::optional<Peer> one;
  std::optional<Peer> two;
};

TEST(Peer, WritesFramesInOrderHoweverFullTheSocketIs) {
  Pair pair;
  const std::vector<std::size_t> sizes{1, 3'000'000, 0, 5'000'000, 2};
  for (const auto size : sizes) pair.one->queue(FrameKind::message, bytes_of_size(size));
  std::vector<std::size_t> read;
  while (read.size() < sizes.size()) {
    pair.one->flush();
    EXPECT_EQ(pair.two->read([&](const Frame& frame) { read.push_back(frame.bytes.size()); }), "");
  }
  EXPECT_EQ(read, sizes);
  EXPECT_FALSE(pair.one->has_unsent());
}

TEST(Peer, ReadsWhatWasSaidBeforeTheEndAndThenHowItEnded) {
  Pair pair;
  pair.one->queue(FrameKind::leave, {});
  pair.one->flush();
  pair.one->close();
  EXPECT_LT(pair.one->socket(), 0);
  std::vector<FrameKind> kinds;
  EXPECT_EQ(pair.two->read([&](const Frame& frame) { kinds.push_back(frame.kind); }),
            "its connection closed without a graceful leave");
  EXPECT_EQ(kinds, std::vector{FrameKind::leave});
}

TEST(Peer, CallsWhatNobodySealedNonsense) {
  Pair pair;
  const Bytes noise = bytes_of_size(100);
  ASSERT_EQ(::write(pair.one->socket(), noise.data(), noise.size()), 100);
  EXPECT_EQ(pair.two->read([](const Frame&) { FAIL(); }).find("it sent nonsense: "), 0U);
}

TEST(Peer, WritesNothingMoreOnceItsOtherEndIsGone) {
  Pair pair;
  pair.two->close();
  pair.one->queue(FrameKind::beat, {});
  pair.one->flush();
  EXPECT_FALSE(pair.one->is_open());
  pair.one->queue(FrameKind::beat, {});
  EXPECT_FALSE(pair.one->has_unsent());
}

TEST(Peer, SeesTheProcessOfAnotherRankOfItsMachineAlone) {
  const Member self{0, ::getpid(), "a", "space"};
  const auto watched = [&](Member member) {
    auto [first, second] = socket_pair();
    return Peer(std::move(member), {std::move(first), make_sessions().first}, self, Clock::now()).watched();
  };
  const Watched here = watched({1, ::getppid(), "a", "space"});
  EXPECT_TRUE(here.process_seen && !here.in_other_space);
  const Watched thread = watched({1, ::getpid(), "a", "space"});
  EXPECT_FALSE(thread.process_seen || thread.in_other_space);
  const Watched there = watched({1, ::getppid(), "b", "other space"});
  EXPECT_TRUE(!there.process_seen && there.in_other_space);
}

}  // namespace
}  // namespace hora::tcp
