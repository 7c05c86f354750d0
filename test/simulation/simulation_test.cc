// SPDX-License-Identifier: Apache-2.0
// Many jobs, of which everything follows from a number; `./dev simulate` makes more of them.
#include "test/simulation/job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

/// The last lines of what happened.
std::string story(const Job& job) {
  std::string text;
  const auto& lines = job.history();
  for (std::size_t i = lines.size() > 100 ? lines.size() - 100 : 0; i < lines.size(); ++i)
    text += lines[i] + "\n";
  return text;
}

TEST(Simulation, AThousandJobsEndAsTheyMust) {
  std::vector<int> seen(kFaults);
  int locked_steps = 0;
  int trees = 0;
  int unnamed = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = plan_of(seed, 0);
    ++seen[static_cast<std::size_t>(plan.fault)];
    Job job(plan);
    const std::string wrong = job.run();
    ASSERT_EQ(wrong, "") << "seed " << seed << ", " << name(plan.fault) << " of rank " << plan.faulty_rank
                         << " of " << plan.ranks << "\n"
                         << story(job);
    locked_steps += job.locked_steps();
    trees += plan.radix != 0 ? 1 : 0;
    unnamed += plan.unnamed != 0 ? 1 : 0;
  }
  EXPECT_GT(trees, 300);
  EXPECT_GT(unnamed, 200);
  EXPECT_GT(locked_steps, 300);
  for (const int times : seen) EXPECT_GT(times, 50);
}

TEST(Simulation, TheSameSeedTakesTheSameCourse) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Job one(plan_of(seed, 0));
    Job other(plan_of(seed, 0));
    EXPECT_EQ(one.run(), other.run());
    EXPECT_EQ(one.history(), other.history());
    EXPECT_EQ(one.time(), other.time());
  }
}

TEST(Simulation, AThousandRanksAgree) {
  for (const Fault fault : {Fault::none, Fault::death, Fault::stand_still}) {
    for (const int radix : {0, 2, 16}) {
      Plan plan = plan_of(1, 1024);
      plan.fault = fault;
      plan.radix = radix;
      plan.steps = 2;
      plan.tensors = 2;
      plan.faulty_rank = 1000;
      plan.step = plan.tensor = 1;
      Job job(plan);
      EXPECT_EQ(job.run(), "") << story(job);
    }
  }
}

}  // namespace
}  // namespace hora
