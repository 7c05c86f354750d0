// SPDX-License-Identifier: Apache-2.0
#include "core/compose/three_steps.h"

#include "core/backend/local/rendezvous.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace hora {
namespace {

/// The steps of a rank that is alone on the only host.
ThreeSteps alone() {
  const auto own = [] { return local::make_local_collective(std::make_shared<local::Rendezvous>(1), 0); };
  return {own(), own(), hosts_of({{0}}, 0)};
}

TEST(ThreeSteps, GoInOneOrderWhateverTheWorkerDoes) {
  for (const std::size_t chunks : {1, 2, 3, 10}) {
    ThreeSteps steps = alone();
    std::vector<std::string> here;  // the engine's
    std::vector<std::size_t> across;
    std::vector<std::promise<void>> brought(chunks);
    steps.run(
        Cut{chunks, 1, 1, 1}, [&](std::size_t k) { here.push_back("first " + std::to_string(k)); },
        [&](std::size_t k) {
          across.push_back(k);
          brought[k].set_value();
        },
        [&](std::size_t k) {
          const auto there = brought[k].get_future();
          EXPECT_EQ(there.wait_for(std::chrono::seconds(0)), std::future_status::ready) << k;
          here.push_back("third " + std::to_string(k));
        });
    std::vector<std::string> wanted{"first 0"};
    for (std::size_t k = 1; k < chunks; ++k) {
      wanted.push_back("first " + std::to_string(k));
      wanted.push_back("third " + std::to_string(k - 1));
    }
    wanted.push_back("third " + std::to_string(chunks - 1));
    EXPECT_EQ(here, wanted);
    ASSERT_EQ(across.size(), chunks);
    EXPECT_TRUE(std::is_sorted(across.begin(), across.end()));
  }
}

TEST(ThreeSteps, EndAllStepsWhenOneFails) {
  for (const int failing : {0, 1, 2}) {
    ThreeSteps steps = alone();
    int under_way = 0;  // across; read when `run` has ended
    const auto step = [&](int number, std::size_t k) {
      if (number == failing && k == 1) throw Error(Code::aborted, "rank 1 is gone");
    };
    const Status why = thrown([&] {
      steps.run(
          Cut{4, 1, 1, 1}, [&](std::size_t k) { step(0, k); },
          [&](std::size_t k) {
            ++under_way;
            steps.across().barrier();
            step(1, k);
            --under_way;
          },
          [&](std::size_t k) { step(2, k); });
    });
    EXPECT_EQ(why.message, "rank 1 is gone");
    EXPECT_LE(under_way, 1);
    EXPECT_THROW(steps.local().barrier(), Error);
    EXPECT_THROW(steps.world().barrier(), Error);
  }
}

TEST(ThreeSteps, CutNothingSmallAndEverythingLarge) {
  const ThreeSteps steps = alone();
  EXPECT_EQ(steps.cut(16 * 1024, 4).chunks(), 1U);
  EXPECT_EQ(steps.cut(1'000'000, 4).chunks(), 8U);
  for (const std::size_t total : {1U, 1000U, 1'000'003U}) {
    const Cut cut = steps.cut_blocks(total, 4);
    std::size_t sum = 0;
    for (std::size_t k = 0; k < cut.chunks(); ++k)
      sum += steps.slices_here(cut, cut.begin(k + 1) - cut.begin(k), 1).front();
    EXPECT_EQ(sum, total);
  }
}

TEST(ThreeSteps, KeepARoomUntilALargerOneIsNeeded) {
  ThreeSteps steps = alone();
  std::byte* const first = steps.room(0, 1000);
  EXPECT_EQ(steps.room(0, 10), first);
  EXPECT_NE(steps.room(1, 10), first);
}

}  // namespace
}  // namespace hora
