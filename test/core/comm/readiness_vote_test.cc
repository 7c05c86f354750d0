// SPDX-License-Identifier: Apache-2.0
#include "core/comm/readiness_vote.h"

#include "test/support/one_core.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr TimePoint kThen{std::chrono::seconds(5)};

TEST(ReadinessVote, AllSeeTheWordsOfAll) {
  const auto calls = make_votes(3);
  calls[2]->answer(12, kThen);
  EXPECT_TRUE(calls[2]->has_answered());
  EXPECT_TRUE(calls[0]->has_answered(2));
  EXPECT_FALSE(calls[0]->has_answered(1));
  calls[0]->answer(10, kThen);
  EXPECT_FALSE(calls[0]->is_complete());
  calls[1]->answer(11, kThen);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->is_complete());
    const auto& answers = call->conclude();
    EXPECT_EQ(answers[0].word, 10u);
    EXPECT_EQ(answers[1].word, 11u);
    EXPECT_EQ(answers[2].word, 12u);
    EXPECT_EQ(answers[2].when, kThen.time_since_epoch().count());
    EXPECT_FALSE(call->has_answered());
    EXPECT_FALSE(call->is_complete());
  }
}

TEST(ReadinessVote, KnowsFromTheStartHowManyCoresThereAreForEach) {
  const OneCore one;
  EXPECT_EQ(make_votes(1)[0]->cores_for_each(), 1);
  EXPECT_EQ(make_votes(2)[1]->cores_for_each(), 0);
}

TEST(ReadinessVote, TheFirstMayAnswerTheNextRoundWhileOthersStillReadThisOne) {
  const auto calls = make_votes(2);
  calls[0]->answer(1, kThen);
  calls[1]->answer(2, kThen);
  EXPECT_EQ(calls[0]->conclude()[1].word, 2u);
  calls[0]->answer(3, kThen);
  EXPECT_EQ(calls[1]->conclude()[0].word, 1u);
  calls[1]->answer(4, kThen);
  EXPECT_EQ(calls[1]->conclude()[0].word, 3u);
}

TEST(ReadinessVote, OneThatIsUrgedKnowsUntilTheRoundIsOver) {
  const auto calls = make_votes(2);
  calls[0]->answer(1, kThen);
  EXPECT_FALSE(calls[1]->is_urged());
  const auto rings = WakeUp(calls[1]->wake_up()).rings();
  calls[0]->urge();
  calls[0]->urge();
  EXPECT_EQ(WakeUp(calls[1]->wake_up()).rings(), rings + 1);
  EXPECT_TRUE(calls[1]->is_urged());
  calls[1]->answer(0, kThen);
  static_cast<void>(calls[1]->conclude());
  EXPECT_FALSE(calls[1]->is_urged());
}

TEST(ReadinessVote, TheLastToAnswerRingsThoseWhoSleep) {
  const auto calls = make_votes(3);
  WakeUp first(calls[0]->wake_up());
  calls[0]->answer(1, kThen);
  first.sleeps_for(Sleep::peers);
  calls[1]->answer(2, kThen);
  EXPECT_EQ(first.rings(), 0u);
  calls[2]->answer(3, kThen);
  EXPECT_EQ(first.rings(), 1u);
  EXPECT_EQ(WakeUp(calls[1]->wake_up()).rings(), 0u);  // which is awake, and looks
}

/// Threads that sleep whenever they wait: it would hang if one were not woken, and words would be torn or of
/// another round if they were read too early or overwritten too soon.
TEST(ReadinessVote, ManyRoundsOfThreads) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kRounds = 3000;
  const auto calls = make_votes(kRanks);
  run_ranks(kRanks, [&](int rank) {
    ReadinessVote& call = *calls[static_cast<std::size_t>(rank)];
    WakeUp wake_up(call.wake_up());
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      call.answer(round * kRanks + static_cast<std::uint64_t>(rank), kThen);
      while (!call.is_complete()) {
        const auto seen = wake_up.rings();
        wake_up.sleeps_for(Sleep::peers);
        if (!call.is_complete()) wake_up.wait(seen, TimePoint::max());
        wake_up.sleeps_for(Sleep::none);
      }
      const auto& answers = call.conclude();
      for (std::uint64_t other = 0; other < kRanks; ++other)
        ASSERT_EQ(answers[other].word, round * kRanks + other);
    }
  });
}

}  // namespace
}  // namespace hora
