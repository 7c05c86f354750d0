// SPDX-License-Identifier: Apache-2.0
// Many elastic jobs, of which everything follows from a number; `./dev simulate` makes more of them.
#include "test/simulation/elastic/job.h"

#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

/// The last lines of what happened.
std::string story(const ElasticJob& job) {
  std::string text;
  const auto& lines = job.history();
  for (std::size_t i = lines.size() > 100 ? lines.size() - 100 : 0; i < lines.size(); ++i)
    text += lines[i] + "\n";
  return text;
}

TEST(ElasticSimulation, AThousandJobsKeepTheirStepsAndTheirSamples) {
  std::uint64_t generations = 0;
  int repeated = 0;
  int paused = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    ElasticJob job(elastic_plan_of(seed));
    ASSERT_EQ(job.run(), "") << "seed " << seed << "\n" << story(job);
    generations += job.generations();
    repeated += job.repeated();
    paused += job.paused_for_ever() ? 1 : 0;
  }
  EXPECT_GT(generations, 2000u);
  EXPECT_GT(repeated, 200);
  EXPECT_LT(paused, 300);
}

TEST(ElasticSimulation, TheSameSeedTakesTheSameCourse) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ElasticJob one(elastic_plan_of(seed));
    ElasticJob other(elastic_plan_of(seed));
    EXPECT_EQ(one.run(), other.run());
    EXPECT_EQ(one.history(), other.history());
  }
}

class PlantedBug : public testing::TestWithParam<int> {};

TEST_P(PlantedBug, IsFound) {
  const auto bug = static_cast<Bug>(GetParam());
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    if (!ElasticJob(elastic_plan_of(seed, bug)).run().empty()) return;
  }
  FAIL() << "10,000 jobs do not show that " << name(bug);
}

INSTANTIATE_TEST_SUITE_P(Elastic, PlantedBug, testing::Range(1, kBugs));

}  // namespace
}  // namespace hora::elastic
