// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/meeting.h"

#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(Meeting, TheLastToArriveDoesTheWorkOnceForAll) {
  Meeting meeting(3);
  int work_done = 0;
  run_ranks(3, [&](int rank) {
    for (int round = 0; round < 100; ++round) {
      meeting.meet(rank, {}, [&](const std::vector<Meeting::Posting>& all) {
        EXPECT_EQ(all.size(), 3u);
        ++work_done;  // under the meeting's lock
      });
    }
  });
  EXPECT_EQ(work_done, 100);
}

}  // namespace
}  // namespace hora::local
