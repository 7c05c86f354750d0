// SPDX-License-Identifier: Apache-2.0
// Ranks of this machine, some of which come later. test/job and test/python have whole jobs.
#include "runner/launch/job_ranks.h"

#include "runner/launch/signals.h"
#include "runner/streams/standard_input.h"

#include "test/runner/own_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(JobRanks, KeepWhatEachProcessOfARankDid) {
  EXPECT_TRUE(in_own_process([] {
    Options options;
    options.ranks = 1;
    options.hosts = {{"localhost", 2}};
    options.shares = place(options.hosts, 1, false);
    options.elastic.emplace();
    options.command = {"/bin/sh", "-c", "echo $HORA_MEMBER_ID; exit $HORA_MEMBER_ID"};
    Signals signals;
    StandardInput input(std::nullopt);
    JobHosts hosts;
    JobRanks ranks(options);
    hosts.prepare(plan_of(options), options, input);
    hosts.start();
    ranks.add(hosts.at(0), input);
    std::vector<bool> expected;
    int ended = 0;
    const auto until = [&](int count) {
      while (ended < count || hosts.anybody_left()) {
        std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
        hosts.watch(fds);
        ::poll(fds.data(), fds.size(), milliseconds_until(hosts.next()));
        signals.take(
            [&](const Signals::Child& child) {
              hosts.child_changed(child.pid, child.wait_status, Clock::now());
            },
            [](int) {});
        for (const auto& event : hosts.turn(0, Clock::now())) {
          const int rank = hosts.at(0).numbers.at(static_cast<std::size_t>(event.index));
          if (event.kind == RankEvent::Kind::started)
            expected.push_back(ranks.begin(rank, hosts.at(0), event.pid));
          if (event.kind == RankEvent::Kind::ended) {
            ranks.end(rank, event.ending, Clock::duration{}, false);
            ++ended;
          }
        }
        ranks.relay().move();
      }
    };
    until(1);
    GenerationOrders orders;
    orders.starts = {{{.rank = 0, .size = 2}, 7}, {{.rank = 1, .size = 2, .local_rank = 1}, 8}};
    for (const auto& start : orders.starts) ranks.expect(start.placement);
    EXPECT_EQ(ranks.log().process(1), "(not started)");
    hosts.carry_out(orders);
    until(3);
    EXPECT_THAT(expected, ElementsAre(false, true, true));
    const auto& summary = ranks.summary();
    ASSERT_THAT(summary.ranks, SizeIs(2));
    EXPECT_EQ(summary.ranks[0].ending->exit_code, 7);
    ASSERT_THAT(summary.ranks[0].earlier, SizeIs(1));
    EXPECT_EQ(summary.ranks[0].earlier[0].ending->exit_code, 1);
    EXPECT_EQ(summary.ranks[1].ending->exit_code, 8);
    EXPECT_EQ(summary.ranks[1].host, "localhost");
    EXPECT_THAT(summary.ranks[1].earlier, SizeIs(0));
    ranks.relay().ranks_have_ended();
    while (!ranks.relay().errors_read()) ranks.relay().move();
    EXPECT_EQ(ranks.relay().output(0).last_line(80), "7");
    EXPECT_EQ(ranks.relay().output(1).last_line(80), "8");
  }));
}

}  // namespace
}  // namespace hora::hrun
