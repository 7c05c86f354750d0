// SPDX-License-Identifier: Apache-2.0
#include "test/bench/fingerprint.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <vector>

namespace hora::bench {
namespace {

constexpr std::size_t kBlockBytes = 256 << 10;
constexpr int kRoundTrips = 1000;
constexpr int kBlocks = 20;
constexpr int kTries = 25;  // a slow one says what else ran, not where the processors are

/// Memory of both processes. One writes `ball`, the other `back`.
struct Court {
  alignas(128) std::atomic<std::uint64_t> ball;
  alignas(128) std::atomic<std::uint64_t> back;
  alignas(128) std::array<std::uint64_t, kBlockBytes / sizeof(std::uint64_t)> block;
};

/// Yields at times, as both may have to share a processor.
void await(const std::atomic<std::uint64_t>& flag, std::uint64_t value) {
  for (int tries = 1; flag.load(std::memory_order_acquire) < value; ++tries) {
    if (tries % 10'000 == 0) sched_yield();
  }
}

void pin_to(std::size_t processor) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors[processor % processors.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// The other process: sends every ball back, and reads the block when it is told that there is a new one.
void answer(Court& court) {
  std::uint64_t turn = 0;
  for (; turn < std::uint64_t{kTries} * kRoundTrips;) {
    await(court.ball, ++turn);
    court.back.store(turn, std::memory_order_release);
  }
  for (const std::uint64_t end = turn + std::uint64_t{kTries} * kBlocks; turn < end;) {
    await(court.ball, ++turn);
    court.block[0] = std::accumulate(court.block.begin(), court.block.end(), turn);
    court.back.store(turn, std::memory_order_release);
  }
}

/// The seconds of the fastest try.
template <typename Act>
double seconds_of(const Act& act) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    act();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count());
  }
  return least;
}

void ask(Court& court) {
  std::uint64_t turn = 0;
  const auto serve = [&] {
    court.ball.store(++turn, std::memory_order_release);
    await(court.back, turn);
  };
  const double round_trips = seconds_of([&] {
    for (int i = 0; i < kRoundTrips; ++i) serve();
  });
  const double blocks = seconds_of([&] {
    for (int i = 0; i < kBlocks; ++i) {
      court.block.fill(turn);
      serve();
    }
  });
  fmt::print("{{\"round_trip_us\": {:.4f}, \"handoff_gbs\": {:.3f}}}\n", round_trips * 1e6 / kRoundTrips,
             static_cast<double>(kBlockBytes) * kBlocks / blocks / 1e9);
}

}  // namespace

void print_fingerprint() {
  void* memory = ::mmap(nullptr, sizeof(Court), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(Code::unavailable, "no memory for the fingerprint");
  Court& court = *new (memory) Court;
  const pid_t other = ::fork();
  if (other < 0) throw Error(Code::unavailable, "cannot start a process for the fingerprint");
  pin_to(other == 0 ? 1 : 0);
  if (other == 0) {
    answer(court);
    ::_exit(0);
  }
  ask(court);
  ::waitpid(other, nullptr, 0);
  ::munmap(memory, sizeof(Court));
}

}  // namespace hora::bench
