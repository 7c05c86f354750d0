// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_all.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::shm {
namespace {

TEST(WriteAll, DoesNothingOnceARankHasLeft) {
  const auto arenas = make_arenas(2);
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const auto& arena : arenas) {
    memory.push_back(arena->allocate(4096));
    std::fill_n(reinterpret_cast<float*>(memory.back().get()), 1024, 1.0F);
  }
  run_ranks(2, [&](int rank) {
    const auto who = static_cast<std::size_t>(rank);
    const Communicator communicator(arenas[who], rank, 2);
    Rounds rounds(communicator);
    RemoteAccess access(communicator, nullptr);
    Sums sums(communicator, {});
    WriteAll write_all(communicator, rounds, access, sums);
    const Segment segment{memory[who].get(), memory[who].get(), 1024};
    Mailbox& own = rounds.open(Call::allreduce, 4096, 0);
    own.inputs[0] = own.outputs[0] = access.locate(memory[who].get());
    rounds.meet();
    if (rank == 0) leave(Communicator(arenas[0], 0, 2), nullptr);
    rounds.phase();
    if (rank == 1) write_all.run({&segment, 1}, {});
  });
  for (const auto& data : memory) {
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(reinterpret_cast<const float*>(data.get())[i], 1.0F);
  }
}

TEST(ShareBegin, CutsAtCacheLinesAndCoversEverything) {
  for (const std::size_t total : {0, 1, 15, 16, 17, 1000, 4096}) {
    for (const int ranks : {1, 2, 3, 8}) {
      EXPECT_EQ(share_begin(total, 4, 0, ranks), 0u);
      EXPECT_EQ(share_begin(total, 4, ranks, ranks), total);
      for (int rank = 0; rank < ranks; ++rank) {
        const std::size_t begin = share_begin(total, 4, rank, ranks);
        EXPECT_TRUE(begin % 16 == 0 || begin == total);
        EXPECT_LE(begin, share_begin(total, 4, rank + 1, ranks));
      }
    }
  }
}

}  // namespace
}  // namespace hora::shm
