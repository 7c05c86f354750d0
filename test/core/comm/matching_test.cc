// SPDX-License-Identifier: Apache-2.0
#include "core/comm/matching.h"

#include "core/comm/delivery.h"

#include <gtest/gtest.h>

#include <string>

namespace hora {
namespace {

using Box = Matching<std::string>;

Envelope from(int rank, int tag) { return {rank, tag, DType::uint8, {1}}; }

TEST(Matching, GivesAMessageToWhoHasWaitedLongest) {
  Box box;
  box.wait({{0, 7}, {}, {}});
  box.wait({{kAnySource, kAnyTag}, {}, {}});
  EXPECT_EQ(box.claim(from(1, 7))->wanted.source, kAnySource);
  EXPECT_EQ(box.claim(from(0, 7))->wanted.source, 0);
  EXPECT_FALSE(box.claim(from(0, 7)));
}

TEST(Matching, GivesAReceiveTheFirstMessageThatItCanTake) {
  Box box;
  box.keep(from(2, 1), "first");
  box.keep(from(2, 5), "second");
  box.keep(from(3, 5), "third");
  EXPECT_EQ(*box.probe({kAnySource, 5}), from(2, 5));
  EXPECT_EQ(box.take({3, kAnyTag})->arrival, "third");
  EXPECT_EQ(box.take({2, 5})->arrival, "second");
  EXPECT_EQ(box.take({kAnySource, kAnyTag})->arrival, "first");
  EXPECT_FALSE(box.take({kAnySource, kAnyTag}));
  EXPECT_EQ(box.probe({kAnySource, kAnyTag}), nullptr);
}

TEST(Matching, KeepsProcessSetsApart) {
  Box box;
  Envelope of_set = from(1, 7);
  of_set.process_set = 2;
  box.keep(of_set, "of the set");
  EXPECT_FALSE(box.take({kAnySource, kAnyTag}));
  EXPECT_EQ(box.take({1, 7, 2})->arrival, "of the set");
  box.wait({{1, 7}, {}, {}});
  EXPECT_FALSE(box.claim(of_set));
}

TEST(Matching, GivesUpThoseWhoWaitForOneRank) {
  Box box;
  box.wait({{1, 0}, {}, {}});
  box.wait({{kAnySource, 0}, {}, {}});
  box.wait({{1, 3}, {}, {}});
  EXPECT_EQ(box.give_up(wants_from(1)).size(), 2U);
  EXPECT_EQ(box.give_up(any_receive).size(), 1U);
  EXPECT_FALSE(box.claim(from(1, 0)));
}

TEST(Matching, GivesBackMessagesInTheirOrder) {
  Box box;
  for (const auto* text : {"a", "b", "c", "d"}) box.keep(from(text[0] == 'c' ? 2 : 1, 0), text);
  const auto lost = box.give_back([](const Box::Kept& kept) { return kept.envelope.source == 1; });
  std::string all;
  for (const auto& kept : lost) all += kept.arrival;
  EXPECT_EQ(all, "abd");
  EXPECT_EQ(box.take({kAnySource, kAnyTag})->arrival, "c");
  EXPECT_FALSE(box.take({kAnySource, kAnyTag}));
}

}  // namespace
}  // namespace hora
