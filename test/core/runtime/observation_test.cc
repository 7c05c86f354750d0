// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/observation.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

#include <optional>

namespace hora {
namespace {

class ObservationTest : public testing::Test {
 protected:
  ObservationTest() {
    observation_.emplace(world_, config_, table_, timeline_, delays_, messages_, negotiator_, wake_up_);
  }

  local::LocalGroup group_{2};
  World other_ = group_.join(0);
  World world_ = group_.join(1);
  Config config_;
  TensorTable table_;
  Timeline timeline_{2};
  Delays delays_;
  ProcessSets sets_{2};
  Messages messages_{*world_.messenger, 1, sets_};
  Negotiator rank0_{*other_.control};
  Negotiator negotiator_{*world_.control};
  WakeUpWords words_{};
  WakeUp wake_up_{words_};
  std::optional<Observation> observation_;
};

TEST_F(ObservationTest, TellsRank0OfADelayOnce) {
  delays_.open("evaluation", std::chrono::seconds(300), Clock::now());
  EXPECT_EQ(wake_up_.rings(), 1U);
  for (const std::size_t news : {1, 0}) {
    observation_->tell(Clock::now());
    rank0_.hear(Clock::now(), false);
    const auto reports = rank0_.take_reports();
    ASSERT_EQ(reports.size(), news);
    if (news > 0) {
      EXPECT_EQ(reports.front().kind, Report::delay);
      EXPECT_EQ(reports.front().rank, 1);
    }
  }
}

TEST_F(ObservationTest, AnswersAnInquiryWithAnAccount) {
  observation_->answer_inquiry();
  rank0_.hear(Clock::now(), false);
  const auto reports = rank0_.take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports.front().kind, Report::account);
}

TEST_F(ObservationTest, WakesTheEngineUntilItEnds) {
  observation_->inquire(1);
  EXPECT_EQ(wake_up_.rings(), 1U);
  observation_.reset();
  delays_.open("evaluation", std::chrono::seconds(300), Clock::now());
  EXPECT_EQ(wake_up_.rings(), 1U);
}

}  // namespace
}  // namespace hora
