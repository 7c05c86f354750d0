// SPDX-License-Identifier: Apache-2.0
// Real processes of an elastic job, which are killed while they train.
#include "test/support/elastic_launcher.h"
#include "test/support/elastic_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <random>

namespace hora {
namespace {

constexpr std::uint64_t kSteps = 400;
constexpr int kProcesses = 4;

/// The steps that each process has made, in memory that all share.
using Progress = std::array<std::atomic<std::uint64_t>, kProcesses>;

Progress& shared_progress() {
  void* memory = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return *static_cast<Progress*>(memory);
}

/// A process that trains to the last step, and whether its model is right then.
[[noreturn]] void train(const Config& settings, std::atomic<std::uint64_t>& made) {
  bool right = false;
  try {
    ElasticProcess self(settings);
    while (self.made() < kSteps) {
      self.step();
      made = self.made();
    }
    right = self.model() == model_after(kSteps);
    self.job().shutdown({});
  } catch (const std::exception& error) {
    fmt::print(stderr, "process {}: {}\n", settings.member_id - 1, error.what());
    ::_exit(1);
  }
  ::_exit(right && !testing::Test::HasFailure() ? 0 : 2);
}

/// Kills processes when others have made some more steps, at moments that the seed chooses. The one that
/// is the first of those left is among them.
class Killer {
 public:
  explicit Killer(unsigned seed) : random_(seed) {}
  [[nodiscard]] int victim(const std::vector<int>& left) {
    return left[std::uniform_int_distribution<std::size_t>(0, left.size() - 1)(random_)];
  }
  /// Waits until the process has made some more steps, and then for a part of a step.
  void await(const std::atomic<std::uint64_t>& made) {
    const std::uint64_t until = made + std::uniform_int_distribution<std::uint64_t>(1, 40)(random_);
    while (made < until) std::this_thread::yield();
    const TimePoint later =
        Clock::now() + std::chrono::microseconds(std::uniform_int_distribution<int>(0, 400)(random_));
    while (Clock::now() < later) {
    }
  }

 private:
  std::mt19937 random_;
};

/// A job in which all but one process are killed, one after the other.
void lose_all_but_one(unsigned seed, const char* operations) {
  ElasticLauncher launcher(policy_for(kProcesses));
  Progress& progress = shared_progress();
  std::array<pid_t, kProcesses> pids{};
  std::vector<int> left;
  for (int process = 0; process < kProcesses; ++process) {
    Config settings = launcher.settings(process);
    settings.cpu_operations = operations;
    const auto place = static_cast<std::size_t>(process);
    pids[place] = ::fork();
    if (pids[place] == 0) train(settings, progress[place]);
    left.push_back(process);
  }
  Killer killer(seed);
  while (left.size() > 1) {
    const int victim = killer.victim(left);
    const int witness = left.front() == victim ? left.back() : left.front();
    killer.await(progress[static_cast<std::size_t>(witness)]);
    const pid_t pid = pids[static_cast<std::size_t>(victim)];
    ::kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "seed " << seed << ": it has ended before, with status " << status;
    launcher.die(victim, "was killed");
    std::erase(left, victim);
  }
  int status = 0;
  ::waitpid(pids[static_cast<std::size_t>(left.front())], &status, 0);
  EXPECT_EQ(status, 0) << "seed " << seed << ", process " << left.front() << ", " << operations;
  EXPECT_EQ(launcher.killed(), std::vector<int>()) << "seed " << seed;
  ::munmap(&progress, sizeof(Progress));
}

TEST(ElasticProcesses, TrainToTheEndWhicheverAndWheneverOneIsKilled) {
  for (unsigned seed = 1; seed <= 25; ++seed) lose_all_but_one(seed, seed % 3 == 0 ? "tcp" : "auto");
}

}  // namespace
}  // namespace hora
