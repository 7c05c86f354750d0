// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::rounds {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(Units, TheLastUnitOfARoundIsNotCompleteWithinThePass) {
  Units units(false);
  for (int i = 0; i < 2; ++i) units.add_parameter(units.add_unit(), kDense);
  units.begin_pass();
  EXPECT_TRUE(units.completes(1));
  EXPECT_FALSE(units.completes(0));
  units.submitted({1});
  EXPECT_THAT(units.unsubmitted(), ElementsAre(ElementsAre(0)));
  units.submit_again(1);
  EXPECT_TRUE(units.completes(1)) << "one more unit is to be submitted";
}

TEST(Units, ForgetsKindsThatNotAllRanksKnow) {
  Units units(/*sparse_as_dense=*/true);
  const int unit = units.add_unit();
  for (int i = 0; i < 2; ++i) units.add_parameter(unit, kUnknown);
  units.asked(units.unasked());
  units.learn({1, kDense}, /*lasting=*/false);
  EXPECT_TRUE(units.travels_dense(units.kind(0)));
  EXPECT_THAT(units.unsubmitted(), ElementsAre(ElementsAre(0, 1)));
  units.submitted({0, 1});
  EXPECT_THAT(units.unsubmitted(), IsEmpty());
  units.end_round();
  EXPECT_THAT(units.unasked(), ElementsAre(0, 1));
}

TEST(Units, RecallKindsAsIfTheyHadBeenLearned) {
  Units learned(/*sparse_as_dense=*/false);
  Units recalled(/*sparse_as_dense=*/false);
  for (Units* units : {&learned, &recalled}) {
    const int unit = units->add_unit();
    for (int i = 0; i < 3; ++i) units->add_parameter(unit, kUnknown);
    units->add_parameter(unit, kDense);
  }
  learned.asked(learned.unasked());
  learned.learn({2, kUnknown, kDense}, /*lasting=*/true);
  learned.end_round();
  const auto kinds = learned.lasting_kinds();
  EXPECT_THAT(kinds, ElementsAre(2, kUnknown, kDense, kDense));
  recalled.forget_kinds();
  recalled.recall(kinds);
  EXPECT_THAT(recalled.unsubmitted(), UnorderedElementsAre(ElementsAre(3, 2), ElementsAre(0)));
  EXPECT_EQ(recalled.lasting_kinds(), kinds);
  EXPECT_THAT(recalled.unasked(), ElementsAre(1));
}

TEST(Units, SubmitASparseGradientAloneWhateverIsKnownOfItsUnit) {
  for (const auto& kinds : {std::vector<int>{1, kDense, kDense}, {kDense, 1, kDense}}) {
    Units units(/*sparse_as_dense=*/false);
    const int unit = units.add_unit();
    for (int i = 0; i < 3; ++i) units.add_parameter(unit, kUnknown);
    units.asked(units.unasked());
    units.learn(kinds, /*lasting=*/false);
    const int sparse = kinds[0] == 1 ? 0 : 1;
    EXPECT_THAT(units.unsubmitted(), UnorderedElementsAre(ElementsAre(sparse), ElementsAre(1 - sparse, 2)));
  }
}

}  // namespace
}  // namespace hora::rounds
