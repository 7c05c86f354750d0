// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job.h"
#include "core/runtime/connect.h"
#include "test/support/listed_generations.h"
#include "test/support/processes.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hora {
namespace {

/// Adds 1 for each rank, into every element of `memory`.
Handle count_ranks(Job& job, std::span<float> memory) {
  std::fill(memory.begin(), memory.end(), 1.0F);
  Entry entry;
  entry.name = "gradient";
  entry.shape = {static_cast<std::int64_t>(memory.size())};
  entry.input = entry.output = memory.data();
  entry.op = ReduceOp::sum;
  return job.session()->submit(std::move(entry));
}

void expect_all(std::span<const float> memory, float value) {
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [value](float each) { return each == value; }))
      << "expected " << value << ", the first is " << memory.front();
}

TEST(JobProcesses, GoOnAfterAnyOfThemHasBeenKilled) {
  constexpr std::size_t kElements = 1'000'000;
  for (const char* operations : {"auto", "tcp"}) {
    for (int killed = 0; killed < 3; ++killed) {
      std::vector<int> others{0, 1, 2};
      others.erase(others.begin() + killed);
      const auto memberships = memberships_of(3, {{0, 1, 2}, others});
      const auto ends = run_processes(3, [&](int process) {
        Config config;
        config.cpu_operations = operations;
        Job job(config, std::make_unique<ListedGenerations>(
                            config, memberships[static_cast<std::size_t>(process)], connect));
        const auto memory = job.session()->allocate(kElements * sizeof(float));
        const std::span all(reinterpret_cast<float*>(memory.get()), kElements);
        count_ranks(job, all).wait();
        expect_all(all, 3);
        if (process == killed) ::kill(::getpid(), SIGKILL);
        EXPECT_EQ(thrown([&] { count_ranks(job, all).wait(); }).code, Code::generation_ended);
        job.next_generation();
        count_ranks(job, all).wait();
        expect_all(all, 2);
      });
      for (int process = 0; process < 3; ++process) {
        const int end = ends[static_cast<std::size_t>(process)];
        if (process == killed) {
          EXPECT_TRUE(WIFSIGNALED(end));
        } else {
          EXPECT_EQ(end, 0) << operations << ", process " << killed << " was killed";
        }
      }
    }
  }
}

}  // namespace
}  // namespace hora
