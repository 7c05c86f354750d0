// SPDX-License-Identifier: Apache-2.0
#include "core/watch/waits.h"

#include "core/backend/local/control_queues.h"

#include <hora/message.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TimePoint kBegin{};

/// Rank 0 of three.
class WaitsTest : public testing::Test {
 protected:
  /// This rank says that it leaves the job.
  void leave(int rank) {
    if (rank == 0) {
      negotiator_.leave(Clock::now());
    } else {
      Ballot ballot;
      ballot.leaving = true;
      local::make_local_control(office_, rank)->send(0, encode(ballot));
    }
    negotiator_.hear(Clock::now(), false);
  }
  [[nodiscard]] std::vector<Wait> all() const { return waits_.all(negotiator_); }

  std::shared_ptr<local::ControlQueues> office_ = std::make_shared<local::ControlQueues>(3);
  std::unique_ptr<Control> control_ = local::make_local_control(office_, 0);
  Negotiator negotiator_{*control_};
  Waits waits_{3};
};

TEST_F(WaitsTest, ForAnyRankOfAProcessSetAreForItsRanksAlone) {
  negotiator_.add_group(1, {0, 2});
  waits_.tell_messages(2, {{false, kAnySource, 7, "a tensor", 0, seconds(4), 1}}, kBegin);
  ASSERT_EQ(all().size(), 1U);
  EXPECT_THAT(all()[0].on.missing, ElementsAre(0));
}

TEST_F(WaitsTest, AreTheMessagesThatRanksHaveToldOfLast) {
  const TimePoint now = kBegin + seconds(10);
  EXPECT_EQ(waits_.oldest(negotiator_), TimePoint::max());
  waits_.tell_messages(1, {{false, 2, 7, "int64[2]", 16, seconds(4)}, {true, 0, 3, "int8[9]", 9, seconds(2)}},
                       now);
  EXPECT_EQ(waits_.oldest(negotiator_), kBegin + seconds(6));
  const auto told = all();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].kind, WaitKind::receive);
  EXPECT_EQ(told[0].on.since, kBegin + seconds(6));
  EXPECT_THAT(told[0].on.asked, ElementsAre(1));
  EXPECT_THAT(told[0].on.missing, ElementsAre(2));
  EXPECT_EQ(told[1].kind, WaitKind::send);
  EXPECT_THAT(told[1].on.missing, ElementsAre(0));
  waits_.tell_messages(1, {}, now);
  EXPECT_THAT(all(), IsEmpty());
  EXPECT_EQ(waits_.oldest(negotiator_), TimePoint::max());
}

TEST_F(WaitsTest, FromAnySourceMissAllOthersThatHaveNotLeft) {
  waits_.tell_messages(1, {{false, kAnySource, 7, "int64[2]", 16, {}}}, kBegin);
  EXPECT_THAT(all().front().on.missing, ElementsAre(0, 2));
  leave(2);
  EXPECT_THAT(all().front().on.missing, ElementsAre(0));
}

TEST_F(WaitsTest, AreThoseWhoWaitInShutdownUntilTheyAreLeftOut) {
  leave(2);
  const auto told = all();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.front().kind, WaitKind::shutdown);
  EXPECT_THAT(told.front().on.asked, ElementsAre(2));
  EXPECT_THAT(told.front().on.missing, ElementsAre(0, 1));
  EXPECT_EQ(waits_for(told, 2), "in shutdown(), for ranks that have not called it");
  EXPECT_LT(waits_.oldest(negotiator_), TimePoint::max());
  waits_.leave_out_shutdown();
  EXPECT_THAT(all(), IsEmpty());
  EXPECT_EQ(waits_.oldest(negotiator_), TimePoint::max());
}

TEST(Wait, IsDescribed) {
  const auto wait = [](WaitKind kind, const std::string& name) {
    return Wait{kind, {name, "int64[2]", 0, {}, {2}, {1}, {}}};
  };
  const auto said = [](const Wait& each) { return describe(each, 1, seconds(60)) + describe_asked(each); };
  EXPECT_EQ(said(wait(WaitKind::tensor, "x")),
            "'x' (int64[2]) and 1 more has been waited for 60 s: rank 2 asked for it");
  EXPECT_EQ(said(wait(WaitKind::receive, "a message from rank 1 with tag 7")),
            "rank 2 has waited for 60 s for a message from rank 1 with tag 7 (int64[2]) and 1 more, "
            "which has not been sent");
  EXPECT_EQ(said(wait(WaitKind::send, "a message to rank 1 with tag 7")),
            "rank 2 has waited for 60 s until a message to rank 1 with tag 7 (int64[2]) and 1 more is "
            "received");
  EXPECT_EQ(said(wait(WaitKind::shutdown, "shutdown")), "shutdown() has waited for 60 s: rank 2 called it");
}

}  // namespace
}  // namespace hora
