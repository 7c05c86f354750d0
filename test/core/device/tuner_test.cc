// SPDX-License-Identifier: Apache-2.0
#include "core/device/tuner.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <random>

namespace hora {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;
using Counts = std::array<int, 2>;

/// Makes so many calls of `bytes` bytes, of which call i takes `cost(i, way)`; how often each way was taken.
Counts make_calls(Tuner& tuner, int calls, std::size_t bytes,
                  const std::function<double(int i, std::size_t way)>& cost) {
  Counts taken{};
  for (int i = 0; i < calls; ++i) {
    const std::size_t way = tuner.way(bytes);
    ++taken.at(way);
    tuner.note(way, bytes, Milliseconds(cost(i, way)));
  }
  return taken;
}

/// The cost of calls where `way` takes one millisecond, and the other one takes `other` milliseconds.
auto faster(std::size_t way, double other = 2) {
  return [=](int /*i*/, std::size_t taken) { return taken == way ? 1.0 : other; };
}

TEST(Tuner, TriesBothWaysAndKeepsTheFaster) {
  for (const std::size_t best : {0u, 1u}) {
    Tuner tuner(100);
    const Counts taken = make_calls(tuner, 27, 1000, faster(best));
    EXPECT_EQ(taken.at(1 - best), 8);
    EXPECT_EQ(tuner.way(1000), best);
  }
}

TEST(Tuner, IsNotMistakenWhereTwoKindsOfCallsAlternate) {
  Tuner tuner(100);
  const auto cost = [](int i, std::size_t way) { return (i % 2 == 0 ? 1 : 4) * (way == 1 ? 10.0 : 11.0); };
  make_calls(tuner, 50, 1000, cost);
  EXPECT_EQ(tuner.way(1000), 1u);
  const Counts taken = make_calls(tuner, 10'000, 1000, cost);
  EXPECT_LT(taken[0], 500);
}

TEST(Tuner, NoticesThatTheOtherWayHasBecomeFaster) {
  Tuner tuner(100);
  make_calls(tuner, 1000, 1000, faster(0, 1.2));
  EXPECT_EQ(tuner.way(1000), 0u);
  make_calls(tuner, 1000, 1000, faster(1, 1.2));
  EXPECT_EQ(tuner.way(1000), 1u);
}

TEST(Tuner, LeavesAWayAtOnceThatBecomesSlowerThanTheOtherWas) {
  Tuner tuner(100);
  make_calls(tuner, 50, 1000, faster(0, 1.2));
  const Counts taken = make_calls(tuner, 15, 1000, faster(1, 3));
  EXPECT_GE(taken[1], 10);
}

TEST(Tuner, SpendsLittleTimeOnTheSlowerWay) {
  for (const double other : {1.05, 1.5, 2.0, 5.0, 20.0}) {
    Tuner tuner(100);
    const int calls = 100'000;
    const Counts taken = make_calls(tuner, calls, 1000, faster(0, other));
    EXPECT_LT(taken[1] * (other - 1), 0.02 * calls) << "with the other way at " << other;
  }
}

TEST(Tuner, DoesNotFollowCallsThatWereInterrupted) {
  Tuner tuner(100);
  const auto cost = [](int i, std::size_t way) { return (way == 0 ? 1.0 : 1.3) * (i % 40 == 39 ? 30 : 1); };
  make_calls(tuner, 30, 1000, cost);
  const Counts taken = make_calls(tuner, 10'000, 1000, cost);
  EXPECT_LT(taken[1], 500);
}

/// A machine with other work: each call may be interrupted, and while the ways take turns it also looks as if
/// the slower one were the faster.
class NoisyMachine {
 public:
  explicit NoisyMachine(unsigned seed) : random_(seed), best_(seed % 2), other_(1.2 + 0.2 * (seed % 10)) {}

  double cost(int call, std::size_t way) {
    const bool misleads = call < misled_calls();
    const double quiet = (way == best_) != misleads ? 1 : other_;
    const bool interrupted = std::uniform_real_distribution<>(0, 1)(random_) < 0.25;
    return interrupted ? quiet * std::uniform_real_distribution<>(1.5, 10)(random_) : quiet;
  }
  [[nodiscard]] static int misled_calls() { return 60; }
  [[nodiscard]] std::size_t best() const { return best_; }

 private:
  std::mt19937 random_;
  std::size_t best_;
  double other_;
};

TEST(Tuner, LeavesAWrongLeaderWithinTwentySteps) {
  const int calls_a_step = 25;  // 100 MB of gradients in batches of 4 MiB
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Tuner tuner(100);
    NoisyMachine machine(seed);
    int wrong = 0;  // steps in a row, of which most calls went the slower way
    for (int step = 0; step < 200; ++step) {
      const int first = step * calls_a_step;
      const Counts taken = make_calls(tuner, calls_a_step, 1000,
                                      [&](int i, std::size_t way) { return machine.cost(first + i, way); });
      const bool judged = first >= NoisyMachine::misled_calls();
      wrong = judged && taken.at(1 - machine.best()) > calls_a_step / 2 ? wrong + 1 : 0;
      ASSERT_LT(wrong, 20) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(Tuner, LeavesAWrongLeaderOfWorkThatComesOnceAStepWithinTwentySteps) {
  for (const std::size_t best : {0u, 1u}) {
    Tuner tuner(100);
    make_calls(tuner, 20, 1000, faster(1 - best, 1.5));
    make_calls(tuner, 20, 1000, faster(best, 1.5));
    const Counts taken = make_calls(tuner, 20, 1000, faster(best, 1.5));
    EXPECT_LE(taken.at(1 - best), 6) << "one trial";
  }
}

TEST(Tuner, DecidesForEachOrderOfMagnitudeByItself) {
  Tuner tuner(100);
  make_calls(tuner, 50, 1000, faster(0));
  make_calls(tuner, 200, 100'000, faster(1));
  EXPECT_EQ(tuner.way(1000), 0u);
  EXPECT_EQ(tuner.way(100'000), 1u);
}

TEST(Tuner, BeginsWithTheWayThatLeadsInTheNearestOrderOfMagnitude) {
  Tuner tuner(100);
  make_calls(tuner, 50, 1000, faster(1));
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{2000}, ~std::size_t{0}})
    EXPECT_EQ(tuner.way(bytes), 1u) << bytes;
  const auto dearer = [](int /*i*/, std::size_t way) { return way == 1 ? 100.0 : 150.0; };
  EXPECT_EQ(make_calls(tuner, 10, 2000, dearer), (Counts{0, 10}))
      << "for each byte, too, and yet it is faster";
}

TEST(Tuner, BeginsSoAlsoWhereTheOtherWayIsJustBeingTriedAgain) {
  Tuner tuner(100);
  make_calls(tuner, 50, 1000, faster(1));
  while (tuner.way(1000) == 1) make_calls(tuner, 1, 1000, faster(1));
  EXPECT_EQ(make_calls(tuner, 10, 2000, faster(1)), (Counts{0, 10}));
}

TEST(Tuner, DoesNotTimeWhatIsTooSmall) {
  Tuner tuner(100);
  EXPECT_EQ(make_calls(tuner, 50, 10, faster(1)), (Counts{50, 0}));
  make_calls(tuner, 50, 100, faster(1));
  EXPECT_EQ(make_calls(tuner, 50, 10, faster(0)), (Counts{0, 50}))
      << "takes the way of the smallest that is timed";
}

TEST(Tuner, IsNoneWhereOneWayIsTold) {
  Tuner tuner(100, true);
  EXPECT_EQ(make_calls(tuner, 500, 1000, faster(0)), (Counts{0, 500}));
}

}  // namespace
}  // namespace hora
