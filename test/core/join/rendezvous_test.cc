// SPDX-License-Identifier: Apache-2.0
#include "core/join/rendezvous.h"

#include "core/join/connector.h"
#include "core/join/find_membership.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace hora {
namespace {

std::vector<std::string> failures(const std::vector<Config>& configs) {
  std::vector<std::string> texts(configs.size());
  run_ranks(static_cast<int>(configs.size()), [&](int thread) {
    const auto& config = configs[static_cast<std::size_t>(thread)];
    try {
      static_cast<void>(rendezvous(membership_of(config), config, Clock::now() + config.start_timeout));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(thread)] = error.what();
    }
  });
  return texts;
}

TEST(Meet, NamesTheRanksThatDoNotComeOnAllThatDid) {
  auto configs = loopback_configs(4);
  configs.resize(2);
  for (auto& config : configs) config.start_timeout = std::chrono::milliseconds(500);
  const auto texts = failures(configs);
  EXPECT_NE(texts[0].find("ranks 2 and 3 did not come within 0.5 s"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
}

TEST(Meet, RefusesTwoProcessesOfOneRank) {
  auto configs = loopback_configs(3);
  configs[2].rank = 1;
  const auto texts = failures(configs);
  EXPECT_NE(texts[0].find("two processes were started as rank 1"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

TEST(Meet, FindsRankZeroBehindOneOfSeveralCandidates) {
  const Descriptor silent = listen_at({"127.0.0.2", "0"});  // takes connections, and never answers
  auto configs = loopback_configs(3);
  configs[1].coordinator = fmt::format("127.0.0.3:1,no-such-host.invalid:7,{},{}",
                                       format(local_address(silent.fd())), configs[1].coordinator);
  configs[2].coordinator = configs[1].coordinator;
  run_ranks(3, [&](int rank) {
    const RendezvousResult result =
        rendezvous(membership_of(configs[static_cast<std::size_t>(rank)]),
                   configs[static_cast<std::size_t>(rank)], Clock::now() + std::chrono::seconds(20));
    for (const auto& member : result.peer_list.members)
      EXPECT_EQ(member.addresses, std::vector<std::string>{"127.0.0.1"}) << member.rank;
  });
}

TEST(Meet, WithoutASocketRankZeroListensAtTheFirstCandidateThatIsItsOwn) {
  auto configs = loopback_configs(2);
  Address free;
  {
    const Descriptor listener = listen_at({"127.0.0.1", "0"});
    free = local_address(listener.fd());
  }
  for (auto& config : configs) {
    config.coordinator = "240.0.0.1:7," + format(free);
    config.coordinator_fd.reset();
  }
  EXPECT_EQ(failures(configs), std::vector<std::string>(2));
}

TEST(Meet, SaysHowEachCandidateFailed) {
  auto configs = loopback_configs(2);
  configs[1].coordinator = "127.0.0.3:1,no-such-host.invalid:7";
  configs[1].start_timeout = std::chrono::milliseconds(500);
  configs.erase(configs.begin());
  const std::string text = failures(configs)[0];
  EXPECT_EQ(text.rfind("rank 1 did not get through to rank 0 within 0.5 s: 127.0.0.3:1 refused; "
                       "no-such-host.invalid: ",
                       0),
            0U)
      << text;
}

TEST(Meet, WarnsOnBothSidesOfASecretThatDiffersBeforeTheTimeIsOver) {
  auto configs = loopback_configs(2);
  configs[1].secret = Secret{77};
  for (auto& config : configs) config.start_timeout = std::chrono::seconds(3);
  testing::internal::CaptureStderr();
  failures(configs);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const std::string part :
       {"does not know this job's secret", "warning: rank 1 did not come yet; still trying, until 3 s",
        "warning: rank 1 did not get through to rank 0 yet: ", "whose ranks have one secret"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
}

TEST(Meet, TellsAllWhenARankEndsBeforeTheOthersHaveCome) {
  auto configs = loopback_configs(4);
  configs.resize(2);
  configs[1].start_timeout = std::chrono::seconds(1);  // rank 0 may have ended before rank 1 calls it
  std::thread ends([&] {
    // Rank 2 introduces itself, and ends.
    const Address listener = parse_address(configs[0].coordinator);
    Connector connector(configs[0].secret, {Role::control, 2, 4}, {listener}, Clock::now());
    std::optional<Connection> first;
    while (!(first = connector.serve(Clock::now()))) std::this_thread::yield();
    const Bytes frame = seal_frame(first->session.sends, FrameKind::member, encode(this_member(2)));
    write_all(first->socket.fd(), frame, TimePoint::max());
  });
  const auto texts = failures(configs);
  ends.join();
  EXPECT_NE(texts[0].find("rank 2 (pid "), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("has ended before all ranks had come"), std::string::npos) << texts[0];
}

/// The launcher's news: a message on its way to each of these ranks.
std::vector<Descriptor> tell(std::vector<Config>& configs, const RankEnd& end) {
  std::vector<Descriptor> ends;
  const Bytes bytes = encode(end);
  for (auto& config : configs) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    EXPECT_EQ(::send(pair[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    config.news_fd = pair[1];
    for (const int fd : pair) ends.emplace_back(fd);
  }
  return ends;
}

TEST(Meet, EndsAtOnceWhenTheLauncherSaysThatARankHasEndedThatNeverCame) {
  auto configs = loopback_configs(4);
  configs.resize(2);
  const auto news = tell(configs, {3, true, "was killed by signal 9 (Killed)", ""});
  for (const auto& text : failures(configs))
    EXPECT_EQ(text, "rank 3 has ended before all ranks had come: it was killed by signal 9 (Killed)");
}

TEST(Meet, EndsAtOnceWhenTheLauncherSaysThatRankZeroHasEnded) {
  auto configs = loopback_configs(3);
  configs.erase(configs.begin());
  const auto news = tell(configs, {0, false, "exited with code 0", ""});
  for (const auto& text : failures(configs))
    EXPECT_EQ(text, "rank 0 has ended before all ranks had come: it exited with code 0 without shutdown");
}

TEST(Meet, NamesRankZeroWhereThatFallsSilent) {
  auto configs = loopback_configs(2);
  configs[1].start_timeout = std::chrono::milliseconds(300);
  Acceptor acceptor(Descriptor(::dup(*configs[0].coordinator_fd)), configs[0].secret);
  std::vector<Acceptor::Arrival> arrivals;
  std::thread zero([&] {
    while (arrivals.empty()) arrivals = acceptor.serve(Clock::now());
  });
  const std::string text = failures({configs[1]})[0];
  zero.join();
  EXPECT_NE(text.find("rank 1 has got through to rank 0, which has not said since"), std::string::npos)
      << text;
}

TEST(Meet, ManyRanksMeetAtOnce) {
  auto configs = loopback_configs(256);
  EXPECT_EQ(failures(configs), std::vector<std::string>(256));
}

}  // namespace
}  // namespace hora
