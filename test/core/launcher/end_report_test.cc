// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/end_report.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(EndReport, TravelsAsBytes) {
  const EndReport report{"ValueError: bad batch", "train.py:31 in step", "Traceback\n"};
  EXPECT_EQ(decode_end_report(encode(report)), report);
  const GaveUp gave_up{"rank 1 is gone", "/tmp/hora-1/rank0.json"};
  EXPECT_EQ(decode_gave_up(encode(gave_up)), gave_up);
}

TEST(EndReport, IsShortenedWhereItIsLongButForATraceWhichIsLeftOut) {
  const std::string large(1 << 20, 'x');
  const EndReport report = decode_end_report(encode(EndReport{large, large, large}));
  EXPECT_EQ(report.error.size(), kMostErrorBytes);
  EXPECT_EQ(report.where.size(), kMostWhereBytes);
  EXPECT_EQ(report.trace, "");
}

TEST(EndReport, IsRefusedAtEveryLengthButItsOwn) {
  Bytes bytes = encode(EndReport{"e", "w", "t"});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_end_report(std::span(bytes).first(length)), Error) << length;
  bytes = encode(GaveUp{"w", "d"});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_gave_up(std::span(bytes).first(length)), Error) << length;
}

}  // namespace
}  // namespace hora
