// SPDX-License-Identifier: Apache-2.0
// How tensors move when not all ranks share memory. A rank that cannot map the arena is a host by itself.
#include "core/runtime/connect.h"
#include "test/support/join_job.h"
#include "test/support/processes.h"
#include "test/support/tcp_ranks.h"

#include <hora/hora.h>

namespace hora {
namespace {

/// Three ranks, of which the last is a host by itself.
void run_on_two_hosts(const std::string& operations, const std::function<void(Config&)>& rank_main) {
  auto configs = loopback_configs(3);
  for (auto& config : configs) config.arena_size = kRegionWithoutRoom;
  configs.front().cpu_operations = operations;  // rank 0's counts
  const auto ends = run_processes(3, [&](int rank) {
    if (rank == 2) leave_no_room_for_an_arena();
    rank_main(configs[static_cast<std::size_t>(rank)]);
  });
  EXPECT_EQ(ends, std::vector<int>(3));
}

TEST(ConnectProcesses, ReduceOverTheHostsThatThereAre) {
  for (const char* operations : {"auto", "tcp"}) {
    run_on_two_hosts(operations, [](Config& config) {
      Runtime hora(config);
      for (const std::size_t count : {std::size_t{10}, std::size_t{1'000'000}}) {
        std::vector<float> x(count, static_cast<float>(config.rank + 1));
        Entry entry;
        entry.name = "x";
        entry.shape = {static_cast<std::int64_t>(count)};
        entry.input = entry.output = x.data();
        entry.op = ReduceOp::sum;
        hora.submit(entry).wait();
        ASSERT_EQ(x, std::vector<float>(count, 6.0F));
      }
    });
  }
}

TEST(ConnectProcesses, SharedMemoryAloneIsRefusedOnSeveralHosts) {
  run_on_two_hosts("shm", [](Config& config) {
    try {
      static_cast<void>(join_job(config));
      FAIL();
    } catch (const Error& error) {
      // The rank finds this by itself, or another rank that found it first has told it.
      EXPECT_NE(std::string(error.what()).find("not all ranks can share memory"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace hora
