// SPDX-License-Identifier: Apache-2.0
// generations_test.cc has jobs that grow and shrink.
#include "runner/elastic/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace hora::hrun {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

/// After any events the job has no more processes than it is to have, none in slots that are gone, and none
/// is missing for which there is a slot.
TEST(Scaling, HasTheProcessesThatItIsToHaveAfterAnyEvents) {
  std::mt19937 random(1);
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  for (int round = 0; round < 200; ++round) {
    const auto shares = place({{"a", 2}, {"b", 2}}, 4, false);
    ElasticProcesses processes(shares);
    std::vector<int> capacities{2, 2};
    const int spares = below(3);
    Scaling scaling(processes, shares, capacities, {.most = 1000}, 4, spares);
    TimePoint now{std::chrono::hours(1)};
    int left_for_good = 0;
    for (int event = 0; event < 50; ++event) {
      now += seconds(1000);  // nobody rests
      const int rank = below(processes.size());
      ElasticProcess& process = processes.at(rank);
      switch (below(6)) {
        case 0:
          scaling.set_size(1 + below(6));
          left_for_good = 0;
          break;
        case 1: {
          const int host = below(static_cast<int>(capacities.size()) + 1);
          if (host == static_cast<int>(capacities.size())) capacities.push_back(0);
          capacities[static_cast<std::size_t>(host)] = below(4);
          scaling.set_capacity(host, capacities[static_cast<std::size_t>(host)]);
          break;
        }
        case 2:
          if (process.gone) break;
          process.gone = true;
          scaling.vacate(rank, false, now);
          break;
        case 3:
          if (process.gone || process.going) break;
          process.asks_to_go = true;
          if (below(2) == 0) break;  // it leaves before the next step
          process.gone = true;
          scaling.vacate(rank, true, now);
          ++left_for_good;
          break;
        case 4: {
          const int host = below(static_cast<int>(capacities.size()));
          scaling.lose_host(host, processes.lose_host(host).ranks, now);
          now += seconds(1000);
          break;
        }
        default:
          if (!process.gone) process.is_member = process.was_member = true;
      }
      for (const int each : scaling.surplus()) {
        processes.at(each).going = true;
        if (below(2) == 0) continue;
        processes.at(each).gone = true;
        scaling.vacate(each, true, now);
      }
      for (const auto& placement : scaling.take(now)) processes.add(placement);
      int slots = 0;
      for (const int capacity : capacities) slots += capacity;
      EXPECT_LE(processes.staying(), std::max(0, scaling.size() + spares - left_for_good) + left_for_good);
      EXPECT_LE(processes.staying(), slots);
      for (int each = 0; each < processes.size(); ++each) {
        const elastic::MemberInfo& info = processes.at(each).info;
        if (!processes.at(each).stays()) continue;
        EXPECT_LT(info.slot, capacities[static_cast<std::size_t>(info.host)]);
      }
      EXPECT_THAT(scaling.surplus(), IsEmpty());
      EXPECT_THAT(scaling.take(now + seconds(1)), IsEmpty());
    }
  }
}

TEST(Scaling, SaysWhenAPlaceStaysEmpty) {
  const auto shares = place({{"a", 2}}, 2, false);
  ElasticProcesses processes(shares);
  Scaling scaling(processes, shares, {2}, {.most = 2}, 2, 0);
  const TimePoint now{std::chrono::hours(1)};
  EXPECT_EQ(scaling.vacate(1, false, now), "");
  EXPECT_EQ(scaling.vacate(1, false, now),
            "rank 1 fails again and again: its next process is started in 10 s");
  EXPECT_EQ(scaling.vacate(0, false, now),
            "rank 0 is not replaced: there were 2 replacements (--max-replacements)");
}

TEST(Scaling, LetsProcessesGoThatAreNoMembersBeforeOthers) {
  const auto shares = place({{"a", 4}}, 4, false);
  ElasticProcesses processes(shares);
  Scaling scaling(processes, shares, {4}, {}, 4, 0);
  for (const int rank : {0, 2, 3}) processes.at(rank).is_member = true;
  scaling.set_size(3);
  EXPECT_THAT(scaling.surplus(), ElementsAre(1));
  scaling.set_size(2);
  EXPECT_THAT(scaling.surplus(), ElementsAre(1, 3));
}

}  // namespace
}  // namespace hora::hrun
