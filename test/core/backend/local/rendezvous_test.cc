// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/rendezvous.h"

#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(Rendezvous, TheLastToArriveDoesTheWorkOnceForAll) {
  Rendezvous rendezvous(3);
  int work_done = 0;
  run_ranks(3, [&](int rank) {
    for (int round = 0; round < 100; ++round) {
      rendezvous.arrive_and_wait(rank, {}, [&](const std::vector<Rendezvous::Buffers>& all) {
        EXPECT_EQ(all.size(), 3u);
        ++work_done;  // under the rendezvous's lock
      });
    }
  });
  EXPECT_EQ(work_done, 100);
}

}  // namespace
}  // namespace hora::local
