// SPDX-License-Identifier: Apache-2.0
#include "core/join/host_bootstrap.h"

#include "core/join/local_socket.h"
#include "core/join/find_membership.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

namespace hora {
namespace {

using std::chrono::milliseconds;

/// The configuration of one rank; the name is of this test alone.
Config rank_of(int rank, int size, milliseconds timeout = milliseconds(20'000)) {
  Config config;
  config.rank = rank;
  config.size = size;
  config.launcher = "torchrun";
  config.meeting_place = "hora-test-bootstrap-" + std::to_string(::getpid()) + "-" +
                         testing::UnitTest::GetInstance()->current_test_info()->name();
  config.start_timeout = timeout;
  return config;
}

struct Outcome {
  Membership membership;
  Status status;
  bool listens = false;
};

/// One rank's try.
Outcome attend(const Config& config) {
  Outcome outcome;
  try {
    outcome.membership =
        bootstrap_on_host(membership_of(config), config, Clock::now() + config.start_timeout);
    const auto& listener = outcome.membership.listener;
    int listens = 0;
    socklen_t length = sizeof listens;
    outcome.listens = listener &&
                      ::getsockopt(listener->fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 &&
                      listens == 1;
  } catch (const Error& error) {
    outcome.status = error.status();
  }
  return outcome;
}

std::vector<Outcome> attend_all(const std::vector<Config>& configs) {
  std::vector<Outcome> outcomes(configs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < configs.size(); ++i)
    threads.emplace_back([&, i] { outcomes[i] = attend(configs[i]); });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

TEST(HostBootstrap, GivesAllRanksOneSecretAndTheListenerOfRank0) {
  for (const int size : {2, 3, 8}) {
    std::vector<Config> configs;
    for (int rank = size - 1; rank >= 0; --rank) configs.push_back(rank_of(rank, size));
    const auto outcomes = attend_all(configs);
    const Membership& first = outcomes.back().membership;
    EXPECT_NE(first.secret, Secret{});
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.status, Status{});
      EXPECT_EQ(outcome.membership.secret, first.secret);
      EXPECT_EQ(outcome.membership.coordinator, first.coordinator);
      EXPECT_EQ(outcome.listens, outcome.membership.rank == 0);
    }
  }
}

TEST(HostBootstrap, MayBeHeldAgainAndAgain) {
  Secret former{};
  for (int round = 0; round < 20; ++round) {
    const auto outcomes = attend_all({rank_of(0, 2), rank_of(1, 2)});
    EXPECT_TRUE(outcomes[0].status.ok() && outcomes[1].status.ok());
    EXPECT_NE(outcomes[0].membership.secret, former);
    former = outcomes[0].membership.secret;
  }
}

TEST(HostBootstrap, NamesWhoDidNotCome) {
  const std::string end =
      " of this job of torchrun did not come within 0.3 s: look whether it called init(); a longer "
      "wait is HORA_START_TIMEOUT";
  const auto timeout = milliseconds(300);
  for (const auto& outcome : attend_all({rank_of(0, 4, timeout), rank_of(2, 4, timeout)})) {
    EXPECT_EQ(outcome.status.code, Code::timeout);
    EXPECT_EQ(outcome.status.message, "ranks 1 and 3" + end);
  }
  EXPECT_EQ(attend(rank_of(1, 2, timeout)).status.message, "rank 0" + end);
}

TEST(HostBootstrap, RefusesTwoThatCameAsOne) {
  const auto outcomes = attend_all({rank_of(0, 3), rank_of(1, 3), rank_of(1, 3)});
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.status.code, Code::invalid_argument);
    EXPECT_NE(outcome.status.message.find("two processes joined this job of torchrun as rank 1: pid"),
              std::string::npos)
        << outcome.status.message;
  }
}

TEST(HostBootstrap, RefusesAnotherSize) {
  for (const auto& outcome : attend_all({rank_of(0, 2), rank_of(1, 3)})) {
    EXPECT_EQ(outcome.status.code, Code::invalid_argument);
    EXPECT_NE(outcome.status.message.find("rank 0 was started by torchrun as one of 2, but pid"),
              std::string::npos)
        << outcome.status.message;
  }
}

TEST(HostBootstrap, TakesARankThatCameBefore) {
  const Config first = rank_of(0, 3);
  std::thread rank0;
  Outcome outcome;
  rank0 = std::thread([&] { outcome = attend(first); });
  EXPECT_EQ(attend(rank_of(1, 3, milliseconds(1))).status.code, Code::timeout);  // rank 0 keeps waiting
  const auto others = attend_all({rank_of(1, 3), rank_of(2, 3)});
  rank0.join();
  EXPECT_EQ(outcome.status, Status{});
  for (const auto& other : others) EXPECT_EQ(other.status, Status{});
}

TEST(HostBootstrap, IsNotDisturbedByProcessesThatConnectAndSayNothing) {
  const Config first = rank_of(0, 2);
  Outcome outcome;
  std::thread rank0([&] { outcome = attend(first); });
  for (int left = 3; left > 0;) {
    try {
      static_cast<void>(connect_local(first.meeting_place));
      --left;
    } catch (const Error&) {
      std::this_thread::yield();  // rank 0 is not there yet
    }
  }
  const Outcome second = attend(rank_of(1, 2));
  rank0.join();
  EXPECT_EQ(outcome.status, Status{});
  EXPECT_EQ(second.status, Status{});
}

TEST(HostBootstrap, SaysSoWhenTheNameIsTaken) {
  const Config config = rank_of(0, 2);
  const Descriptor taken = listen_local(config.meeting_place);
  const Outcome outcome = attend(config);
  EXPECT_EQ(outcome.status.code, Code::unavailable);
  EXPECT_NE(outcome.status.message.find("another process sits where the ranks of this job of torchrun meet"),
            std::string::npos);
}

/// Runs as another user, until it is told to end.
class Squatter {
 public:
  explicit Squatter(const std::string& name) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
      const Descriptor taken = listen_local(name);
      static_cast<void>(::write(ready[1], "x", 1));
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;
  ~Squatter() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST(HostBootstrap, NamesTheUserWhoHasTakenTheNameAndTheRemedyOnAllRanks) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Squatter squatter(rank_of(0, 2).meeting_place);
  for (const auto& outcome : attend_all({rank_of(0, 2), rank_of(1, 2)})) {
    EXPECT_EQ(outcome.status.code, Code::unavailable);
    EXPECT_NE(
        outcome.status.message.find("user 65534 has taken the local socket at which the ranks of this job "
                                    "of torchrun meet: end that user's process, or start the job by "
                                    "another name or port; with HORA_SECRET_FILE"),
        std::string::npos)
        << outcome.status.message;
  }
}

TEST(HostBootstrap, TakesPlaceAtANameThatNobodyGuessesWhereThereIsASecret) {
  const std::string path = testing::TempDir() + "hora-bootstrap-secret-" + std::to_string(::getpid());
  const mode_t former = ::umask(0177);
  std::ofstream(path) << std::string(32, 's');
  ::umask(former);
  std::vector<Config> configs{rank_of(0, 2), rank_of(1, 2)};
  for (auto& config : configs) config.secret_file = path;
  const Descriptor taken = listen_local(configs[0].meeting_place);
  for (const auto& outcome : attend_all(configs)) EXPECT_EQ(outcome.status, Status{});
  std::remove(path.c_str());
}

}  // namespace
}  // namespace hora
