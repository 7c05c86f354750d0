// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/generation_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

using Members = std::vector<MemberInfo>;

TEST(GenerationRecord, IsReadAsItWasWritten) {
  const GenerationRecord record{7, {{3, 0, 1, true}, {900, 12, 0, false}}, 12'345, true};
  EXPECT_EQ(decode_generation_record(encode(record)), record);
  EXPECT_EQ(record.rank_of(900), 1);
  EXPECT_EQ(record.rank_of(4), -1);
}

TEST(GenerationRecord, IsRefusedIfItIsCutOffOrNamesAMemberTwice) {
  const Bytes whole = encode(GenerationRecord{1, {{3, 0, 1, true}, {4, 0, 0, false}}, 0, false});
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW((void)decode_generation_record(std::span(whole).first(length)), Error) << length;
  const Bytes twice = encode(GenerationRecord{1, {{3, 0, 1, true}, {3, 0, 0, false}}, 0, false});
  EXPECT_THROW((void)decode_generation_record(twice), Error);
}

TEST(GenerationRecord, KeepsTheOrderOfHostsAndPutsAReplacementIntoItsSlot) {
  const GenerationRecord former{1, {{1, 5, 0}, {2, 5, 1}, {3, 2, 0}, {4, 2, 1}}, 0, false};
  const Members now{{4, 2, 1}, {7, 1, 0}, {6, 2, 0}, {2, 5, 1}, {8, 5, 0}};
  EXPECT_EQ(in_rank_order(now, former), (Members{{8, 5, 0}, {2, 5, 1}, {6, 2, 0}, {4, 2, 1}, {7, 1, 0}}));
}

TEST(GenerationRecord, PutsAMemberWithTheStateFirst) {
  const GenerationRecord former{1, {{1, 5, 0}, {2, 5, 1}, {3, 2, 0}, {4, 2, 1}}, 0, false};
  const Members one_host{{7, 5, 0}, {2, 5, 1, true}};
  EXPECT_EQ(in_rank_order(one_host, former), (Members{{2, 5, 1, true}, {7, 5, 0}}));
  const Members other_host{{7, 5, 0}, {4, 2, 1, true}, {8, 2, 0}};
  EXPECT_EQ(in_rank_order(other_host, former), (Members{{4, 2, 1, true}, {8, 2, 0}, {7, 5, 0}}));
}

}  // namespace
}  // namespace hora::elastic
