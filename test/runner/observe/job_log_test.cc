// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/job_log.h"

#include "runner/streams/relay.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

/// A log of a job whose ranks are on these hosts.
struct Logged {
  explicit Logged(const std::vector<HostSlots>& hosts, bool verbose = false) {
    for (const auto& host : hosts) options.ranks += host.slots;
    options.shares = place(hosts, options.ranks, false);
    options.verbose = verbose;
    for (const auto& share : options.shares) {
      summary.hosts.push_back(share.host);
      for (const auto& placement : share.placements) {
        RankSummary& rank = summary.ranks.emplace_back();
        rank.rank = placement.rank;
        rank.host = share.host;
        rank.pid = 100 + placement.rank;
      }
    }
  }
  Options options;
  JobSummary summary;
  Relay relay{options};
  JobLog log{options, summary, relay};
};

TEST(JobLog, NamesTheHostWhereThereIsMoreThanOne) {
  const Logged one({{"a", 2}});
  EXPECT_EQ(one.log.name(1), "rank 1 (pid 101)");
  EXPECT_EQ(one.log.on(0), "");
  const Logged two({{"a", 2}, {"b", 1}});
  EXPECT_EQ(two.log.name(2), "rank 2 (pid 102 on b)");
  EXPECT_EQ(two.log.on(1), " on b");
}

TEST(JobLog, NamesAllRanksOfAHostThatIsLost) {
  const Logged job({{"a", 2}, {"b", 1}});
  EXPECT_EQ(job.log.describe_loss(0, {255, "no word", 0}),
            "host a is lost, and with it ranks 0 and 1: no word");
  EXPECT_EQ(job.log.describe_loss(1, {255, "no word", 0}), "host b is lost, and with it rank 2: no word");
}

TEST(JobLog, SaysDetailsWithVerboseOnly) {
  testing::internal::CaptureStderr();
  Logged quiet({{"a", 1}});
  Logged verbose({{"a", 1}}, true);
  quiet.log.say("a detail");
  quiet.log.print("hrun: a fact\n");
  verbose.log.say("one more");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hrun: a fact\nhrun: one more\n");
}

}  // namespace
}  // namespace hora::hrun
