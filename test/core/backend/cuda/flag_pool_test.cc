// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/flag_pool.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace hora::cuda {
namespace {

class FlagPoolTest : public testing::Test {
 protected:
  std::shared_ptr<FlagPool> make() {
    (void)count_gpus(fake.table());
    context = std::make_shared<const PrimaryContext>(fake.table(), 0);
    return std::make_shared<FlagPool>(context, std::make_shared<EventPool>(context));
  }

  FakeDriver fake;
  CUstream stream = fake.make_stream(0);
  std::shared_ptr<const PrimaryContext> context;
};

TEST_F(FlagPoolTest, GivesWordsThatAreZero) {
  const auto pool = make();
  std::set<std::uint32_t*> words;
  for (int i = 0; i < 5000; ++i) {
    const auto flag = pool->take(stream);
    EXPECT_EQ(*flag, 0U);
    *flag = 1;
    words.insert(flag.get());
    if (i % 1000 == 0) fake.finish(0);
  }
  EXPECT_LE(words.size(), 5000U);
  EXPECT_LE(fake.usage(0).pinned_blocks, 5U);
}

TEST_F(FlagPoolTest, KeepsWordsApartThatAreInUse) {
  const auto pool = make();
  std::vector<std::shared_ptr<std::uint32_t>> flags;
  std::set<std::uint32_t*> words;
  for (int i = 0; i < 3000; ++i) {
    flags.push_back(pool->take(stream));
    words.insert(flags.back().get());
  }
  EXPECT_EQ(words.size(), 3000U);
}

TEST_F(FlagPoolTest, UsesNoWordAgainThatAKernelMayStillWriteTo) {
  const auto pool = make();
  const CurrentContext current(*context);
  std::set<std::uint32_t*> words;
  HeldStream gate(stream);
  for (int i = 0; i < 3000; ++i) words.insert(pool->take(stream).get());
  EXPECT_EQ(words.size(), 3000U) << "all of which have come back, but the stream has not gone on";
  gate.open();
  fake.finish(0);
  for (int i = 0; i < 3000; ++i) {
    words.insert(pool->take(stream).get());
    fake.finish(0);
  }
  EXPECT_LE(words.size(), 3072U) << "three pages";
}

TEST_F(FlagPoolTest, LivesForAsLongAsItsWords) {
  auto pool = make();
  auto flag = pool->take(stream);
  pool = nullptr;
  context = nullptr;
  *flag = 1;
  EXPECT_EQ(fake.usage(0).pinned_blocks, 1U);
  flag = nullptr;
  EXPECT_EQ(fake.usage(0), FakeUsage{});
}

}  // namespace
}  // namespace hora::cuda
