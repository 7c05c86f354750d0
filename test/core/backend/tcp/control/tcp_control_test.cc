// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tcp_control.h"

#include "core/comm/unreachable_pairs.h"
#include "core/base/socket_io.h"
#include "core/join/address.h"
#include "core/join/find_membership.h"
#include "core/launcher/news.h"
#include "test/support/middleman.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>

namespace hora::tcp {
namespace {

/// The loss that an event tells of; none: there is no event, or it is a message.
std::optional<PeerLost> loss_in(const std::optional<ControlEvent>& event) {
  const auto* lost = event ? std::get_if<PeerLost>(&*event) : nullptr;
  return lost != nullptr ? std::optional(*lost) : std::nullopt;
}

TEST(TcpControl, ARankThatLeavesEarlyIsLostForWhoeverStillListens) {
  auto worlds = connect_tcp_ranks(loopback_configs(2));
  worlds[1].control.reset();
  const auto lost = loss_in(worlds[0].control->receive(TimePoint::max()));
  ASSERT_TRUE(lost);
  EXPECT_NE(lost->why.message.find("has left the job"), std::string::npos);
}

TEST(TcpControl, AProcessThatIsKilledIsNamedThoughItsChildHoldsItsSockets) {
  const auto configs = loopback_configs(2);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    const World world =
        connect_tcp_control(membership_of(configs[1]), configs[1], Clock::now() + std::chrono::seconds(20));
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
  const World world =
      connect_tcp_control(membership_of(configs[0]), configs[0], Clock::now() + std::chrono::seconds(20));
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(rank, SIGKILL);
  const auto lost = loss_in(world.control->receive(TimePoint::max()));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_NE(lost->why.message.find("rank 1 (pid " + std::to_string(rank)), std::string::npos);
  EXPECT_NE(lost->why.message.find("its process ended"), std::string::npos);
  ::waitpid(rank, nullptr, 0);
  ::kill(-rank, SIGKILL);
}

/// The world of rank 0 of two, whose other rank is a process of its own that has joined and then does
/// `other`.
World beside(const std::vector<Config>& configs, pid_t& rank, const std::function<void(World&)>& other) {
  rank = ::fork();
  if (rank == 0) {
    World world =
        connect_tcp_control(membership_of(configs[1]), configs[1], Clock::now() + std::chrono::seconds(20));
    other(world);
    ::_exit(0);
  }
  return connect_tcp_control(membership_of(configs[0]), configs[0], Clock::now() + std::chrono::seconds(20));
}

/// A job of two, whose rank 1 is a process that joins and dies; rank 0's launcher tells of it, if it does.
struct Death {
  explicit Death(const std::function<void(World&)>& other) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    launcher = Descriptor(ends[0]);
    news = Descriptor(ends[1]);
    auto configs = loopback_configs(2);
    configs[0].news_fd = news.fd();
    world = beside(configs, rank, other);
  }
  ~Death() { ::waitpid(rank, nullptr, 0); }
  Death(const Death&) = delete;
  Death& operator=(const Death&) = delete;

  void tell(const RankEnd& end) const {
    const Bytes bytes = encode(end);
    EXPECT_EQ(::send(launcher.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  /// The message of the loss that rank 0 receives, after "rank 1 (pid 4711 on node7)".
  [[nodiscard]] std::string heard() const {
    const auto lost = loss_in(world.control->receive(TimePoint::max()));
    EXPECT_TRUE(lost);
    const std::string who = describe(world.members[1]);
    EXPECT_EQ(lost->why.message.find(who), 0U) << lost->why.message;
    return lost->why.message.substr(who.size());
  }

  Descriptor launcher;
  Descriptor news;
  pid_t rank = 0;
  World world;
};

TEST(TcpControl, ADeathIsToldAsTheLauncherSawIt) {
  const Death killed([](World&) { ::pause(); });
  ::kill(killed.rank, SIGKILL);
  killed.tell({1, true, "was killed by signal 9 (Killed)", "too large"});
  EXPECT_EQ(killed.heard(), " is gone: it was killed by signal 9 (Killed); its last words: too large");

  const Death exited([](World&) { ::_exit(3); });
  exited.tell({1, false, "exited with code 3", ""});
  EXPECT_EQ(exited.heard(), " is gone: it exited with code 3 without shutdown");
}

TEST(TcpControl, AFailureIsToldWithHowItsProcessEnded) {
  const Death death([](World& world) {
    world.control->fail({Code::internal, "ValueError: bad batch (train.py:31)"});
    ::_exit(1);
  });
  death.tell({1, false, "exited with code 1", "ValueError: bad batch"});
  EXPECT_EQ(death.heard(), " failed: ValueError: bad batch (train.py:31); it exited with code 1");
}

TEST(TcpControl, ADeathIsToldSoonAlsoWhereTheLauncherSaysNothing) {
  const Death death([](World&) { ::pause(); });
  death.tell({0, false, "exited with code 0", "of another rank"});
  const TimePoint begin = Clock::now();
  ::kill(death.rank, SIGKILL);
  EXPECT_EQ(death.heard(), " is gone: its process ended");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
}

TEST(TcpControl, AProcessThatIsStoppedIsLostWhenItHasBeenSilentForTooLong) {
  auto configs = loopback_configs(2);
  for (auto& config : configs) config.heartbeat_timeout = std::chrono::milliseconds(1500);
  pid_t rank = 0;
  const World world = beside(configs, rank, [](World&) { ::pause(); });
  EXPECT_FALSE(world.control->receive(Clock::now() + std::chrono::seconds(3))) << "it sleeps, but it beats";
  ::kill(rank, SIGSTOP);
  const auto lost = loss_in(world.control->receive(Clock::now() + std::chrono::seconds(6)));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_NE(lost->why.message.find("no sign of life for 1.5 s"), std::string::npos) << lost->why.message;
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
}

TEST(TcpControl, WhoBearsLittleSilenceIsNotSilent) {
  auto configs = loopback_configs(2);
  for (auto& config : configs) config.heartbeat_timeout = std::chrono::milliseconds(800);
  pid_t rank = 0;
  const World world = beside(configs, rank, [](World&) { ::pause(); });
  EXPECT_FALSE(world.control->receive(Clock::now() + std::chrono::milliseconds(2500)));
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
}

TEST(TcpControl, ARankThatWasStoppedItselfBlamesNobody) {
  auto configs = loopback_configs(2);
  configs[0].heartbeat_timeout = std::chrono::seconds(60);
  configs[1].heartbeat_timeout = std::chrono::seconds(2);
  pid_t rank = 0;
  const World world = beside(configs, rank, [](World& other) {
    const auto event = other.control->receive(TimePoint::max());
    ::_exit(event && !loss_in(event) ? 0 : 1);
  });
  ::kill(rank, SIGSTOP);
  EXPECT_FALSE(world.control->receive(Clock::now() + std::chrono::milliseconds(4500)));
  ::kill(rank, SIGCONT);
  EXPECT_FALSE(world.control->receive(Clock::now() + std::chrono::milliseconds(500)));
  world.control->send(1, Bytes(1));
  int status = -1;
  ::waitpid(rank, &status, 0);
  EXPECT_EQ(status, 0);
}

/// The losses that ranks 0 and 1 hear of after a man in the middle has done `deed` to a message of rank 1.
std::array<PeerLost, 2> heard_after(Middleman::Deed deed) {
  auto configs = loopback_configs(2);
  Middleman middleman(parse_address(configs[1].coordinator));
  configs[1].coordinator = format(middleman.address());
  auto worlds = connect_tcp_ranks(configs);
  worlds[1].control->send(0, Bytes(1));
  EXPECT_EQ(expect_message(*worlds[0].control->receive(TimePoint::max())).bytes, Bytes(1))
      << "it only listens so far";
  middleman.next(deed);
  worlds[1].control->send(0, Bytes(1));
  while (!middleman.done()) std::this_thread::yield();
  worlds[1].control->send(0, Bytes(1));
  std::array<PeerLost, 2> losses;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::optional<PeerLost> lost;
    while (!lost) lost = loss_in(worlds[rank].control->receive(TimePoint::max()));
    losses[rank] = *lost;
  }
  return losses;
}

TEST(TcpControl, WhoChangesRepeatsOrTakesAwayWhatARankSaysEndsTheJobAndNoMore) {
  for (const auto deed : {Middleman::Deed::flip, Middleman::Deed::repeat, Middleman::Deed::leave_out}) {
    const auto losses = heard_after(deed);
    EXPECT_EQ(losses[0].rank, 1);
    EXPECT_NE(losses[0].why.message.find("rank 1 (pid "), std::string::npos) << losses[0].why.message;
    EXPECT_NE(losses[0].why.message.find("forged, changed or repeated"), std::string::npos)
        << losses[0].why.message;
    EXPECT_EQ(losses[1].why.code, Code::aborted);
  }
}

TEST(TcpControl, RanksThatCannotReachOthersAreNamedInOneReport) {
  auto worlds = connect_tcp_ranks(loopback_configs(4));
  const auto unreachable_pair = [&](int from, int to) {
    return describe_unreachable(std::vector{UnreachablePair{worlds[0].members[static_cast<std::size_t>(from)],
                                                            worlds[0].members[static_cast<std::size_t>(to)],
                                                            {"10.1.0.1:7 refused"}}});
  };
  worlds[3].control->fail(unreachable_pair(3, 1));
  worlds[2].control->fail(unreachable_pair(2, 1));
  for (const std::size_t rank : {0, 1}) {
    const auto lost = loss_in(worlds[rank].control->receive(TimePoint::max()));
    ASSERT_TRUE(lost);
    EXPECT_NE(lost->why.message.find("rank 3 on"), std::string::npos) << lost->why.message;
    EXPECT_NE(lost->why.message.find("rank 2 on"), std::string::npos) << lost->why.message;
  }
  run_ranks(4, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

TEST(TcpControl, InATreeWhatRank0HasAnnouncedLastComesBeforeItsLeave) {
  constexpr int kRanks = 9;
  for (int round = 0; round < 10; ++round) {
    const auto configs = tree_configs(kRanks, 1 + round % 3);
    run_ranks(kRanks, [&](int rank) {
      const auto& config = configs[static_cast<std::size_t>(rank)];
      const auto control =
          connect_tcp_control(membership_of(config), config, Clock::now() + config.start_timeout).control;
      if (rank == 0) {  // perhaps before others have all their tree links
        control->announce(RankSet(1, kRanks), Bytes(1, std::byte{7}));
      } else {
        EXPECT_EQ(expect_message(*control->receive(TimePoint::max())).bytes, Bytes(1, std::byte{7}))
            << "rank " << rank;
      }
    });
  }
}

TEST(TcpControl, InATreeRank0sLeaveReachesThoseWhoStillListen) {
  constexpr int kRanks = 4;
  auto worlds = connect_tcp_ranks(tree_configs(kRanks, 1));
  worlds[0].control.reset();
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    const auto lost = loss_in(worlds[rank].control->receive(TimePoint::max()));
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->rank, 0);
    EXPECT_NE(lost->why.message.find("rank 0 (pid "), std::string::npos) << lost->why.message;
  }
  run_ranks(kRanks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

/// Breaks every connection of this process's ranks that is not one with rank 0.
void break_tree_links(const Address& first) {
  for (int fd = 3; fd < 1024; ++fd) {
    int type = 0;
    socklen_t length = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) continue;
    try {
      if (!(local_address(fd) == first) && !(remote_address(fd) == first)) ::shutdown(fd, SHUT_RDWR);
    } catch (const Error&) {
      continue;  // one that listens, or a local one
    }
  }
}

TEST(TcpControl, AnEdgeThatBreaksWhileBothItsRanksLiveEndsTheJobAndNamesThem) {
  const auto configs = tree_configs(3, 1);  // a chain: one tree link, between ranks 1 and 2
  auto worlds = connect_tcp_ranks(configs);
  break_tree_links(parse_address(configs[0].coordinator));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto lost = loss_in(worlds[rank].control->receive(TimePoint::max()));
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->rank, -1);
    const std::string& words = lost->why.message;
    EXPECT_NE(words.find(describe(worlds[0].members[1])), std::string::npos) << words;
    EXPECT_NE(words.find(describe(worlds[0].members[2])), std::string::npos) << words;
  }
  run_ranks(3, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

}  // namespace
}  // namespace hora::tcp
