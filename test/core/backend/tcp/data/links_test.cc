// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/links.h"

#include "core/join/address.h"
#include "core/join/network.h"
#include "test/support/own_network.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <numeric>

namespace hora::tcp {
namespace {

using testing::HasSubstr;

/// The links of ranks that are threads of this process.
class Job {
 public:
  explicit Job(
      int ranks, const std::function<void(Config&)>& change = [](Config&) {})
      : configs_(loopback_configs(ranks)) {
    for (auto& config : configs_) change(config);
    worlds_ = connect_tcp_ranks(configs_);
    links_.resize(configs_.size());
    each([&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      links_[at] = make_links(worlds_[at], configs_[at], Clock::now() + configs_[at].start_timeout);
    });
  }
  ~Job() {
    each([&](int rank) { worlds_[static_cast<std::size_t>(rank)].control.reset(); });
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void each(const std::function<void(int)>& rank_main) const { run_ranks(ranks(), rank_main); }
  [[nodiscard]] int ranks() const { return static_cast<int>(configs_.size()); }
  [[nodiscard]] Links& of(int rank) const { return *links_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<Config> configs_;
  std::vector<World> worlds_;
  std::vector<std::shared_ptr<Links>> links_;
};

std::vector<int> all_of(const Job& job) {
  std::vector<int> all(static_cast<std::size_t>(job.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Every rank tells each of its peers who it is on every socket, and hears the same.
void talk(const Job& job, int rank, const std::vector<int>& peers) {
  Links& links = job.of(rank);
  const auto word = [](int from, std::size_t stream) {
    return static_cast<std::byte>(static_cast<std::size_t>(from) * 8 + stream);
  };
  for (const int peer : peers) {
    const auto lines = links.lines(peer);
    for (std::size_t s = 0; s < lines.size(); ++s)
      write_all(lines[s]->socket.fd(), std::vector{word(rank, s)}, TimePoint::max());
  }
  for (const int peer : peers) {
    const auto lines = links.lines(peer);
    for (std::size_t s = 0; s < lines.size(); ++s) {
      std::byte heard{};
      read_exactly(lines[s]->socket.fd(), {&heard, 1}, TimePoint::max());
      EXPECT_EQ(heard, word(peer, s)) << rank << " from " << peer;
    }
  }
}

TEST(Links, ConnectThoseThatNeedEachOtherAndNobodyElse) {
  const Job job(8);
  job.each([&](int rank) {
    Links& links = job.of(rank);
    EXPECT_EQ(links.rank(), rank);
    EXPECT_EQ(links.ranks(), 8);
    for (int bit = 1; bit < 8; bit *= 2) {
      const std::vector<int> peers{rank ^ bit, rank, rank ^ bit};
      links.require(peers);
      links.require(peers);
      talk(job, rank, {rank ^ bit});
    }
    EXPECT_THAT(links.lines(rank ^ 7), testing::Each(nullptr));
  });
}

TEST(Links, HaveAllStreamsInTheSameOrderAtBothEnds) {
  const Job job(4, [](Config& config) { config.tcp_streams = 3; });
  const auto all = all_of(job);
  job.each([&](int rank) {
    job.of(rank).require(all);
    std::vector<int> peers = all;
    std::erase(peers, rank);
    EXPECT_EQ(job.of(rank).lines(peers.front()).size(), 3U);
    talk(job, rank, peers);
  });
}

TEST(Links, AbortWakesWhoeverWaitsAndShutsDownWhatThereIs) {
  const Job job(3);
  job.each([&](int rank) {
    if (rank < 2) job.of(rank).require(std::vector{0, 1});
  });
  std::thread waiter([&] { EXPECT_THROW(job.of(0).require(std::vector{2}), Error); });
  job.of(0).abort({Code::aborted, "rank 2 is gone"});
  job.of(0).abort({Code::aborted, "another"});
  waiter.join();
  try {
    job.of(0).require(std::vector{1});
    job.of(0).require(std::vector{2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2 is gone");
  }
  std::byte end{};
  ASSERT_TRUE(
      await_events(job.of(1).lines(0)[0]->socket.fd(), POLLIN, Clock::now() + std::chrono::seconds(5)));
  EXPECT_EQ(::recv(job.of(1).lines(0)[0]->socket.fd(), &end, 1, 0), 0);
}

/// The error of rank 2 when, by the firewall's rule, no connection to it, or from it, is made.
std::string failure_behind(const std::string& rule, const std::string& network) {
  std::string text;
  const bool possible =
      run_in_own_network({"ip link set lo up", "ip link add fast7 type veth peer name other",
                          "ip addr add 10.7.0.1/24 dev fast7", "ip link set fast7 up", "ip link set other up",
                          "iptables -A INPUT -d 10.7.0.1 -p tcp --syn " + rule},
                         [&] {
                           const Job job(3, [&](Config& config) {
                             config.network = network;
                             config.start_timeout = std::chrono::milliseconds(2500);
                           });
                           try {
                             job.of(2).require(std::vector{0, 1});
                           } catch (const Error& error) {
                             EXPECT_EQ(error.code(), Code::unavailable);
                             text = error.what();
                           }
                         });
  return possible ? text : "impossible";
}

TEST(Links, NameAllPairsThatAreRefused) {
  const auto text = failure_behind("-j REJECT --reject-with tcp-reset", "10.7.0.0/24");
  if (text == "impossible") GTEST_SKIP() << "a firewall of its own needs root, iproute2 and iptables";
  EXPECT_THAT(text, testing::ContainsRegex("rank 2 on [^ ]+ -> rank 0 on [^ ]+: 10.7.0.1:[0-9]+ refused\n"));
  EXPECT_THAT(text, testing::ContainsRegex("rank 2 on [^ ]+ -> rank 1 on [^ ]+: 10.7.0.1:[0-9]+ refused\n"));
}

TEST(Links, NamePairsWhoseCallsAreNotAnswered) {
  const auto text = failure_behind("-j DROP", "10.7.0.0/24");
  if (text == "impossible") GTEST_SKIP() << "a firewall of its own needs root, iproute2 and iptables";
  EXPECT_THAT(text,
              testing::ContainsRegex("rank 2 on [^ ]+ -> rank 1 on [^ ]+: 10.7.0.1:[0-9]+ timed out\n"));
}

TEST(Links, FindAWayRoundAnAddressThatIsDead) {
  const bool possible = run_in_own_network(
      {"ip link set lo up", "ip link add fast7 type veth peer name other",
       "ip addr add 10.7.0.1/24 dev fast7", "ip addr add 10.7.0.2/24 dev fast7", "ip link set fast7 up",
       "ip link set other up", "iptables -A INPUT -d 10.7.0.1 -p tcp --syn -j DROP"},
      [] {
        const Job job(3, [](Config& config) { config.network = "fast7"; });
        const auto all = all_of(job);
        job.each([&](int rank) {
          job.of(rank).require(all);
          std::vector<int> peers = all;
          std::erase(peers, rank);
          for (int peer = 0; peer < rank; ++peer)
            EXPECT_EQ(remote_address(job.of(rank).lines(peer)[0]->socket.fd()).host, "10.7.0.2");
          talk(job, rank, peers);
        });
      });
  if (!possible) GTEST_SKIP() << "a firewall of its own needs root, iproute2 and iptables";
}

TEST(Links, OfOneHostListenOnTheLoopbackOnly) {
  const Job job(2);
  job.each([&](int rank) {
    job.of(rank).require(std::vector{0, 1});
    EXPECT_TRUE(is_loopback(local_address(job.of(rank).lines(1 - rank)[0]->socket.fd()).host));
  });
}

TEST(Links, RefuseANetworkThatThisHostHasNot) {
  EXPECT_THROW(Job(2, [](Config& config) { config.network = "240.0.0.0/8"; }), Error);
}

}  // namespace
}  // namespace hora::tcp
