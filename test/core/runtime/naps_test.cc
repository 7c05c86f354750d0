// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/naps.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

constexpr std::size_t kMuch = std::size_t{1} << 20;  // bytes

class NapsTest : public testing::Test {
 protected:
  /// Whether the own thread, which naps until something ends that, comes back.
  template <typename Act>
  void wakes(const Act& act) {
    naps_.share_core(true);  // the longest naps
    std::thread own([this] {
      Naps::Seen seen = naps_.look();
      while (seen.rings == 0) {  // a nap has an end, whether something rings or not
        naps_.nap(seen, TimePoint::max());
        seen = naps_.look();
      }
    });
    act();
    own.join();
  }

  WakeUpWords words_{};
  WakeUp wake_up_{words_};
  Naps naps_{wake_up_};
};

TEST_F(NapsTest, AreOverAtTheirTimeThoughNothingRings) {
  const TimePoint begin = Clock::now();
  naps_.nap(naps_.look(), TimePoint::max());
  EXPECT_GE(Clock::now() - begin, std::chrono::microseconds(50));
  EXPECT_TRUE(naps_.take_napped());
  EXPECT_FALSE(naps_.take_napped());
}

TEST_F(NapsTest, EndWithARingMuchWorkOrALittle) {
  wakes([this] { wake_up_.ring(); });
  words_.rings = 0;
  wakes([this] { naps_.submitted(naps_.gather(kMuch)); });
  words_.rings = 0;
  wakes([this] { naps_.submitted(naps_.gather(1)); });
}

TEST_F(NapsTest, KnowALittleFromMuchAndFromNothing) {
  EXPECT_FALSE(naps_.has_gathered_little());
  EXPECT_EQ(naps_.gather(0), 1U) << "a tensor without elements is work, too";
  EXPECT_TRUE(naps_.has_gathered_little());
  naps_.gather(kMuch);
  EXPECT_FALSE(naps_.has_gathered_little());
  naps_.begin_turn();
  EXPECT_FALSE(naps_.has_gathered_little());
}

TEST_F(NapsTest, CountEachSubmissionAsARing) {
  naps_.submitted(naps_.gather(1));
  wake_up_.ring();
  naps_.submitted(naps_.gather(1));
  EXPECT_EQ(naps_.look().rings, 3U);
  EXPECT_EQ(naps_.look().submissions, 2U);
}

TEST_F(NapsTest, TakeTheRestWhereNothingRangSinceTheLastOne) {
  wake_up_.ring();
  naps_.rest(naps_.look(), TimePoint::max(), true);
  EXPECT_TRUE(naps_.take_napped());
  naps_.rest(naps_.look(), Clock::now(), true);
  EXPECT_FALSE(naps_.take_napped()) << "nothing new: it sleeps";
  wake_up_.ring();
  naps_.rest(naps_.look(), Clock::now(), false);
  EXPECT_FALSE(naps_.take_napped()) << "a thread that waits has to wait for it";
}

}  // namespace
}  // namespace hora
