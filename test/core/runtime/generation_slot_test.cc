// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/generation_slot.h"

#include "core/backend/local/local_group.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

using Where = GenerationSlot::Where;

class GenerationSlotTest : public testing::Test {
 protected:
  /// Forms a generation of one rank.
  void form(std::uint64_t number) {
    Membership membership;
    membership.generation = number;
    slot_.form(
        {}, membership,
        [](const Membership& of, Config&, TimePoint, const std::shared_ptr<HostMemory>&) {
          World world = local::LocalGroup(1).join(0);
          world.membership = of;
          return world;
        },
        TimePoint::max());
  }
  Status await_outcome() {
    while (true) {
      if (const auto outcome = slot_.take_outcome()) return outcome->status;
    }
  }

  GenerationSlot slot_;
};

TEST_F(GenerationSlotTest, GivesAGenerationThatIsOfferedOnce) {
  form(1);
  EXPECT_TRUE(await_outcome().ok());
  EXPECT_FALSE(slot_.take_outcome()) << "it was told";
  EXPECT_FALSE(slot_.await(TimePoint::min())) << "it is not offered yet";
  slot_.offer();
  EXPECT_TRUE(slot_.await(TimePoint::min()));
  const auto generation = slot_.take();
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->world.membership.generation, 1U);
  EXPECT_FALSE(slot_.take());
  EXPECT_EQ(slot_.withdraw(1, {}), Where::taken);
}

TEST_F(GenerationSlotTest, GivesNoneThatWasWithdrawn) {
  form(1);
  EXPECT_TRUE(await_outcome().ok());
  slot_.offer();
  EXPECT_EQ(slot_.withdraw(1, {}), Where::formed);
  EXPECT_FALSE(slot_.take());
  slot_.drop();
  form(2);
  EXPECT_TRUE(await_outcome().ok());
  slot_.offer();
  EXPECT_EQ(slot_.take()->world.membership.generation, 2U);
}

TEST_F(GenerationSlotTest, PassesWishesOnFromOneThreadToTheOther) {
  form(3);
  EXPECT_TRUE(await_outcome().ok());
  slot_.offer();
  static_cast<void>(slot_.take());
  EXPECT_FALSE(slot_.change_is_due());
  slot_.plan_change(4);
  EXPECT_FALSE(slot_.change_is_due()) << "of another generation";
  slot_.plan_change(3);
  EXPECT_TRUE(slot_.change_is_due());
  EXPECT_FALSE(slot_.has_session_ended(3));
  slot_.set_session_ended();
  EXPECT_TRUE(slot_.has_session_ended(3));
  EXPECT_FALSE(slot_.has_session_ended(4)) << "which follows";
  EXPECT_EQ(slot_.finish(), GenerationSlot::Finish::no);
  slot_.set_finish(false, {Code::aborted, "it fails"});
  slot_.set_finish(true, {Code::aborted, "it has left"});
  EXPECT_EQ(slot_.finish(), GenerationSlot::Finish::badly) << "the first counts";
  EXPECT_TRUE(slot_.leaves());
}

TEST_F(GenerationSlotTest, DoesNotLeaveTheOthersWhenItFinishesWell) {
  EXPECT_FALSE(slot_.leaves());
  slot_.set_finish(true, {Code::aborted, "it has left"});
  EXPECT_FALSE(slot_.leaves()) << "a rank that is lost now must not make it seem to fail";
  EXPECT_FALSE(slot_.has_more());
}

TEST_F(GenerationSlotTest, SaysWhyThereIsNoOther) {
  EXPECT_TRUE(slot_.has_more());
  form(1);
  EXPECT_TRUE(await_outcome().ok());
  std::thread other([&] { slot_.end({Code::aborted, "it is too slow"}); });
  EXPECT_EQ(thrown([&] { static_cast<void>(slot_.await(TimePoint::max())); }),
            (Status{Code::aborted, "it is too slow"}));
  other.join();
  EXPECT_FALSE(slot_.has_more());
  slot_.offer();
  EXPECT_FALSE(slot_.take()) << "it was told that there is none";
}

}  // namespace
}  // namespace hora
