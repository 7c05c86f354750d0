// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/connect_shm.h"

#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/base/socket_io.h"
#include "core/compose/hosts.h"
#include "core/join/exchange.h"
#include "core/join/local_socket.h"
#include "core/join/find_membership.h"
#include "test/support/elements.h"
#include "test/support/processes.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

namespace hora::shm {
namespace {

TimePoint deadline() { return Clock::now() + std::chrono::seconds(30); }

/// One rank of a job, and what it shares with others of its host, if there are any.
struct Connected {
  /// `former`: what its process has kept from a former generation.
  explicit Connected(const Config& config, std::shared_ptr<HostMemory> former = nullptr)
      : world(tcp::connect_tcp_control(membership_of(config), config, deadline())) {
    world.host_memory = std::move(former);
    auto shared = share_hosts(world, config, deadline());
    hosts = hosts_of(std::move(shared.ranks), config.rank);
    if (!shared.own) return;
    communicator = shared.own->communicator;
    peers = shared.own->peers;
    collective = make_shm_collective(shared.own->communicator, shared.own->peers);
    world.control->on_loss([this](const Status& why) { collective->abort(why); });
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  ~Connected() { world.control->on_loss({}); }

  World world;
  Hosts hosts;
  std::optional<Communicator> communicator;
  std::shared_ptr<PeerMemory> peers;
  std::unique_ptr<Collective> collective;
};

using Ranks = std::vector<std::vector<int>>;

void reduce_and_check(Collective& collective, float* data, std::size_t count, int rank, int ranks) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(static_cast<int>(i % 100) + rank);
  const Segment segment{data, data, count};
  collective.allreduce({&segment, 1}, {});
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(data[i], static_cast<float>(static_cast<int>(i % 100) * ranks + ranks * (ranks - 1) / 2)) << i;
  }
}

void use_everything(Collective& collective, int rank, int ranks) {
  for (const std::size_t count : {1, 100, 1000, 5000, 100'000, 1'000'000}) {
    std::vector<float> mine(count);
    const auto shared = collective.allocate(count * sizeof(float));
    auto* in_arena = reinterpret_cast<float*>(shared.get());
    for (int repeat = 0; repeat < 3; ++repeat) {
      reduce_and_check(collective, mine.data(), count, rank, ranks);
      reduce_and_check(collective, in_arena, count, rank, ranks);
      reduce_and_check(collective, rank % 2 == repeat % 2 ? mine.data() : in_arena, count, rank, ranks);
    }
    std::iota(mine.begin(), mine.end(), static_cast<float>(rank));
    collective.broadcast(mine.data(), count * sizeof(float), ranks - 1);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(mine[i], static_cast<float>(i) + static_cast<float>(ranks - 1));
    std::vector<float> all(count * static_cast<std::size_t>(ranks));
    mine.assign(count, static_cast<float>(rank));
    collective.allgather(mine.data(), all.data(),
                         std::vector<std::size_t>(static_cast<std::size_t>(ranks), count * sizeof(float)));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<float>(i / count));
  }
  collective.barrier();
}

TEST(ConnectShm, ProcessesShareAnArena) {
  for (const int ranks : {2, 3, 8}) {
    for (const std::optional<bool> peer_memory : {std::optional<bool>(), std::optional(false)}) {
      auto configs = loopback_configs(ranks);
      for (auto& config : configs) config.peer_memory = peer_memory;
      const auto ends = run_processes(ranks, [&](int rank) {
        Connected connected(configs[static_cast<std::size_t>(rank)]);
        ASSERT_NE(connected.collective, nullptr);
        use_everything(*connected.collective, rank, ranks);
      });
      EXPECT_EQ(ends, std::vector<int>(static_cast<std::size_t>(ranks)));
    }
  }
}

TEST(ConnectShm, NothingIsVisibleInDevShm) {
  const auto configs = loopback_configs(2);
  const auto ends = run_processes(2, [&](int rank) {
    Connected connected(configs[static_cast<std::size_t>(rank)]);
    const auto memory = connected.collective->allocate(1 << 20);
    connected.collective->barrier();
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      EXPECT_EQ(entry.path().filename().string().find("hora"), std::string::npos) << entry.path();
    }
    connected.collective->barrier();
  });
  EXPECT_EQ(ends, std::vector<int>(2));
}

TEST(ConnectShm, WhoCannotMapTheArenaIsAHostByItself) {
  auto configs = loopback_configs(3);
  configs[0].arena_size = (std::size_t{1} << 46) - 4096;  // three times that is more than there are addresses
  const auto ends = run_processes(3, [&](int rank) {
    const Connected connected(configs[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(connected.collective, nullptr);
    EXPECT_EQ(connected.hosts.ranks, (Ranks{{0}, {1}, {2}}));
  });
  EXPECT_EQ(ends, std::vector<int>(3));
}

TEST(ConnectShm, TheOthersShareWithoutARankThatCannot) {
  for (const int cannot : {0, 1, 3}) {
    auto configs = loopback_configs(4);
    for (auto& config : configs) config.arena_size = kRegionWithoutRoom;
    Ranks expected{{cannot}, {}};
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != cannot) expected.back().push_back(rank);
    }
    std::sort(expected.begin(), expected.end());
    const auto ends = run_processes(4, [&](int rank) {
      if (rank == cannot) leave_no_room_for_an_arena();
      Connected connected(configs[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(connected.hosts.ranks, expected);
      ASSERT_EQ(connected.collective == nullptr, rank == cannot);
      if (rank != cannot) use_everything(*connected.collective, static_cast<int>(connected.hosts.place), 3);
    });
    EXPECT_EQ(ends, std::vector<int>(4)) << cannot;
  }
}

/// Enters the network namespace of another process. Connections stay connected.
void join_network_of(int pid) {
  const Descriptor network(::open(fmt::format("/proc/{}/ns/net", pid).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(network.fd(), CLONE_NEWNET), 0);
}

TEST(ConnectShm, NetworkNamespacesAreHosts) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes network namespaces";
  const auto configs = loopback_configs(5);
  const auto ends = run_processes(5, [&](int rank) {
    const Config& config = configs[static_cast<std::size_t>(rank)];
    World world = tcp::connect_tcp_control(membership_of(config), config, deadline());
    const auto wait_for_all = [&] { exchange(*world.control, {}, deadline()); };
    if (rank == 1) {
      ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    }
    wait_for_all();
    if (rank == 2 || rank == 4) join_network_of(world.members[1].pid);
    wait_for_all();
    auto shared = share_hosts(world, config, deadline());
    EXPECT_EQ(shared.ranks, (Ranks{{0, 3}, {1, 2, 4}}));
    ASSERT_TRUE(shared.own);
    const Hosts hosts = hosts_of(shared.ranks, rank);
    const auto collective = make_shm_collective(shared.own->communicator, shared.own->peers);
    use_everything(*collective, static_cast<int>(hosts.place), static_cast<int>(hosts.here().size()));
    wait_for_all();
  });
  EXPECT_EQ(ends, std::vector<int>(5));
}

TEST(ConnectShm, WhenARankIsKilledTheOthersAreToldWhichAndNobodyWaitsForEver) {
  for (int round = 0; round < 12; ++round) {
    const auto configs = loopback_configs(3);
    const auto ends = run_processes(3, [&](int rank) {
      Connected connected(configs[static_cast<std::size_t>(rank)]);
      auto memory = connected.collective->allocate(4 << 20);
      std::vector<float> mine(1 << 20);
      auto* data = round % 2 == 0 ? reinterpret_cast<float*>(memory.get()) : mine.data();
      const Segment segment{data, data, std::size_t{1} << (4 + round)};
      try {
        for (int call = 0; call < 100'000; ++call) {
          if (rank == 1 && call == 50 + round) ::kill(::getpid(), SIGKILL);
          connected.collective->allreduce({&segment, 1}, {});
        }
        FAIL() << "the job goes on without rank 1";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::aborted);
        EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
      }
    });
    EXPECT_EQ(ends, (std::vector<int>{0, SIGKILL, 0}));
  }
}

/// The names of abstract sockets that look like those of a job.
std::vector<std::string> names_of_jobs() {
  std::ifstream list("/proc/net/unix");
  std::vector<std::string> names;
  for (std::string line; std::getline(list, line);) {
    const auto at = line.find("@hora-");
    if (at != std::string::npos) names.push_back(line.substr(at + 1));
  }
  return names;
}

/// A thread that sends nonsense to the sockets of all jobs on this machine, for as long as it lives.
class Intruder {
 public:
  Intruder() : thread_([this] { disturb(); }) {}
  Intruder(const Intruder&) = delete;
  Intruder& operator=(const Intruder&) = delete;
  ~Intruder() {
    done_ = true;
    thread_.join();
  }

 private:
  void disturb() const {
    while (!done_) {
      for (const auto& name : names_of_jobs()) {
        try {
          const Descriptor socket = connect_local(name);
          const std::array<std::byte, 64> nonsense{};
          write_all(socket.fd(), nonsense, deadline());
        } catch (const Error&) {
          continue;  // it is there for a moment only
        }
      }
    }
  }

  std::atomic<bool> done_ = false;
  std::thread thread_;
};

/// Four generations of a job on one host, whose processes come and go.
class ComingAndGoing {
 public:
  ComingAndGoing() {
    for (const auto& members : kMembers) {
      configs_.push_back(loopback_configs(static_cast<int>(members.size())));
      for (auto& config : configs_.back()) config.member_fd = 0;  // of an elastic job
    }
  }

  void run(int process) {
    std::shared_ptr<HostMemory> kept;
    std::shared_ptr<std::byte> gradients;
    for (std::size_t generation = 0; generation < kMembers.size(); ++generation) {
      const auto& members = kMembers[generation];
      const auto found = std::find(members.begin(), members.end(), process);
      if (found == members.end()) continue;
      const auto place = static_cast<int>(found - members.begin());
      const Config& config = configs_[generation][static_cast<std::size_t>(place)];
      const Connected connected(config, std::exchange(kept, nullptr));
      ASSERT_TRUE(connected.communicator) << generation;
      const Communicator& communicator = *connected.communicator;
      if (connected.peers) {  // else nobody knows who has ended
        EXPECT_EQ(communicator.rank_at(place), kNumbers[static_cast<std::size_t>(process)]);
      }
      if (!gradients) gradients = connected.collective->allocate(kBytes);
      EXPECT_TRUE(communicator.arena().contains(gradients.get()))
          << "process " << process << " in generation " << generation;
      use(connected, reinterpret_cast<float*>(gradients.get()), place, static_cast<int>(members.size()));
      if (process == kIdler) {
        for (const int other : {0, 2}) await_end_of(other, connected.peers.get());
      }
      if (generation == 2 && process != 3) await_end_of(3, connected.peers.get());
      kept = connected.world.host_memory;
    }
  }

  static constexpr int kProcesses = 6;

 private:
  static void use(const Connected& connected, float* gradients, int rank, int ranks) {
    reduce_and_check(*connected.collective, gradients, kBytes / sizeof(float), rank, ranks);
    use_everything(*connected.collective, rank, ranks);
    exchange(*connected.world.control, {}, deadline());
  }
  static void await_end_of(int number, const PeerMemory* peers) {
    const TimePoint latest = deadline();
    while (peers != nullptr && !peers->has_ended(number) && Clock::now() < latest) std::this_thread::yield();
  }

  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  static constexpr int kIdler = 1;  // it leaves after the first generation, and still uses its memory
  const std::vector<std::vector<int>> kMembers{{0, 1, 2}, {0, 2, 3}, {0, 2, 3, 4}, {0, 2, 4, 5}};
  const std::vector<int> kNumbers{0, 1, 2, 3, 4, 3};  // the last process gets the place of one that has ended
  std::vector<std::vector<Config>> configs_;
};

TEST(ConnectShm, ProcessesThatJoinShareTheArenaOfTheOthers) {
  const auto ends =
      run_processes(ComingAndGoing::kProcesses,
                    [job = std::make_shared<ComingAndGoing>()](int process) { job->run(process); });
  EXPECT_EQ(ends, std::vector<int>(ComingAndGoing::kProcesses));
}

TEST(ConnectShm, UnknownProcessesAtTheLocalSocketAreRefused) {
  for (int round = 0; round < 5; ++round) {
    const auto configs = loopback_configs(3);
    const Intruder intruder;
    run_ranks(3, [&](int rank) {
      Connected connected(configs[static_cast<std::size_t>(rank)]);
      ASSERT_NE(connected.collective, nullptr);
      float x = 1;
      reduce_and_check(*connected.collective, &x, 1, rank, 3);
    });
  }
}

TEST(ConnectShm, AForkedChildMayReadAndGoWithoutHarm) {
  const auto configs = loopback_configs(2);
  const auto ends = run_processes(2, [&](int rank) {
    Connected connected(configs[static_cast<std::size_t>(rank)]);
    const auto memory = connected.collective->allocate(400);
    auto* data = reinterpret_cast<float*>(memory.get());
    reduce_and_check(*connected.collective, data, 100, rank, 2);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(data[99] == 199.0F ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    reduce_and_check(*connected.collective, data, 100, rank, 2);
  });
  EXPECT_EQ(ends, std::vector<int>(2));
}

}  // namespace
}  // namespace hora::shm
