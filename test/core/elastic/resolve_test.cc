// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/resolve.h"

#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

Report voted(std::uint64_t voted, std::uint64_t committed, bool has_state = true) {
  Report report;
  report.voted = voted;
  report.committed = committed;
  report.has_state = has_state;
  return report;
}

TEST(Resolve, CountsAStepForWhichAllHaveVoted) {
  EXPECT_EQ(resolve(std::vector{voted(8, 7), voted(8, 8), voted(8, 7)}), 8u);
  EXPECT_EQ(resolve(std::vector{voted(8, 7)}), 8u);
}

TEST(Resolve, LeavesOutAStepForWhichOneHasNotVoted) {
  EXPECT_EQ(resolve(std::vector{voted(8, 7), voted(7, 7)}), 7u);
}

TEST(Resolve, DoesNotAskMembersWithoutTheState) {
  EXPECT_EQ(resolve(std::vector{voted(0, 0, false), voted(8, 7)}), 8u);
  EXPECT_THROW((void)resolve(std::vector{voted(0, 0, false)}), Error);
}

TEST(Resolve, RefusesVotesThatCannotBe) {
  const Status status = thrown([] { (void)resolve(std::vector{voted(9, 9), voted(7, 7)}); });
  EXPECT_THAT(status.message, testing::HasSubstr("steps 7 and 9"));
}

TEST(Report, IsReadAsItWasWritten) {
  const Report report{3, 9, 8, 7, true, true, false, {4, 5}};
  EXPECT_EQ(decode_report(encode(report)), report);
  const Bytes whole = encode(report);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW((void)decode_report(std::span(whole).first(length)), Error) << length;
  EXPECT_THROW((void)decode_report(encode(voted(7, 8))), Error);
  EXPECT_THROW((void)decode_report(encode(voted(9, 7))), Error);
}

}  // namespace
}  // namespace hora::elastic
