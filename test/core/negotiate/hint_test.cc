// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kWhere = "call it on all ranks, not inside `if hvd.rank() == 0`";

TEST(Hint, AsksForJoinWhereARankThatHasLeftTookFewerSteps) {
  for (const std::uint64_t step : {0, 4}) {
    EXPECT_THAT(hint_for_left({"gradient.0.weight", step, {0, 2}, {1}}),
                AllOf(StartsWith("Did you mean hvd.join()? Rank 1 took fewer steps"),
                      HasSubstr("or backward() on all ranks in every step")));
  }
  EXPECT_THAT(hint_for_left({"allreduce.loss", 4, {0}, {1}}),
              StartsWith("Did you mean hvd.join()? Rank 1 called it less often"));
}

TEST(Hint, SaysWhoAloneCalledWhatAllRanksNeverDidTogether) {
  EXPECT_THAT(hint_for_left({"allreduce.loss", 0, {0}, {1}}),
              AllOf(StartsWith("So far only rank 0 called it; "), HasSubstr(kWhere)));
  EXPECT_THAT(hint_for_waiting({"allreduce.loss", 0, {0}, {1, 2, 3}}),
              AllOf(StartsWith("Only rank 0 called it; "), HasSubstr(kWhere)));
}

TEST(Hint, AsksForBackwardOnAllRanksWhereOneLeftItOutAndLives) {
  EXPECT_THAT(hint_for_waiting({"gradient.0.weight", 4, {0, 2, 3}, {1}}),
              AllOf(StartsWith("Rank 1 did not call backward() in this step"),
                    HasSubstr("call backward() on all ranks in every step")));
  EXPECT_THAT(hint_for_waiting({"allreduce.loss", 4, {0}, {1, 2}}),
              AllOf(StartsWith("Ranks 1 and 2 did not call it in this step"), Not(HasSubstr("backward"))));
}

}  // namespace
}  // namespace hora
