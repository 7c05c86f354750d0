// SPDX-License-Identifier: Apache-2.0
#include <hora/job_listener.h>

#include "core/join/address.h"
#include "test/support/join_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(JobListener, IsWhereTheRanksOfAJobMeetEachTime) {
  const JobListener listener("127.0.0.1/32");
  EXPECT_EQ(parse_address(listener.coordinator()).host, "127.0.0.1");
  for (int job = 0; job < 2; ++job) {
    const auto join = [&](int rank) {
      Config config = Config::with_place(rank, 2, listener.coordinator(), listener.secret());
      if (rank == 0) config.coordinator_fd = listener.fd();
      const World world = join_job(config);
      EXPECT_EQ(world.membership.rank, rank);
      EXPECT_EQ(world.membership.local_rank, rank) << "found out";
      EXPECT_EQ(world.membership.local_size, 2);
      EXPECT_EQ(world.membership.cross_size, 1);
    };
    std::thread other(join, 1);
    join(0);
    other.join();
  }
}

TEST(JobListener, RefusesANetworkThatThisHostIsNotIn) {
  EXPECT_EQ(thrown([] { const JobListener listener("nowhere0"); }).code, Code::invalid_argument);
}

}  // namespace
}  // namespace hora
