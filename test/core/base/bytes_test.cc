// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace hora {
namespace {

TEST(Bytes, ComeBackAsTheyWereWritten) {
  Writer out;
  out.u8(200).u64(0).u64(127).u64(128).u64(std::numeric_limits<std::uint64_t>::max());
  out.i64(0)
      .i64(-1)
      .i64(std::numeric_limits<std::int64_t>::min())
      .i64(std::numeric_limits<std::int64_t>::max());
  out.f64(-0.1).string("layer1.weight").string("");
  const auto bytes = out.take();
  Reader in(bytes);
  EXPECT_EQ(in.u8(), 200);
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_EQ(in.u64(), 127u);
  EXPECT_EQ(in.u64(), 128u);
  EXPECT_EQ(in.u64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(in.i64(), 0);
  EXPECT_EQ(in.i64(), -1);
  EXPECT_EQ(in.i64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(in.i64(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(in.f64(), -0.1);
  EXPECT_EQ(in.string(100), "layer1.weight");
  EXPECT_EQ(in.string(0), "");
  in.finish();
}

TEST(Bytes, SmallNumbersTakeOneByte) {
  Writer out;
  out.u64(127).i64(-64);
  EXPECT_EQ(out.size(), 2u);
}

TEST(Reader, RefusesToReadPastTheEnd) {
  const std::vector<std::byte> bytes{std::byte{0x80}};
  EXPECT_THROW(Reader(bytes).u64(), Error);
  EXPECT_THROW(Reader(bytes).f64(), Error);
  EXPECT_THROW(Reader(bytes).raw(2), Error);
  EXPECT_THROW(Reader({}).u8(), Error);
}

TEST(Reader, RefusesNumbersOfMoreThan64Bits) {
  const std::vector<std::byte> eleven(11, std::byte{0xFF});
  EXPECT_THROW(Reader(eleven).u64(), Error);
  std::vector<std::byte> ten(10, std::byte{0xFF});
  ten.back() = std::byte{0x02};
  EXPECT_THROW(Reader(ten).u64(), Error);
}

TEST(Reader, ChecksLengthsBeforeItBelievesThem) {
  Writer out;
  out.u64(std::uint64_t{1} << 60);
  const auto bytes = out.take();
  EXPECT_THROW(Reader(bytes).string(1000), Error);
  EXPECT_THROW(Reader(bytes).count(1, "things"), Error);
  EXPECT_THROW(Reader(bytes).below(7, "a thing"), Error);
}

TEST(Reader, TakesOnlyZeroAndOneForABoolean) {
  EXPECT_FALSE(Reader(Writer().u64(0).take()).boolean());
  const auto two = Writer().u64(2).take();
  EXPECT_THROW(Reader(two).boolean(), Error);
}

TEST(Reader, SaysWhatItExpectedAndWhere) {
  const auto bytes = Writer().u8(1).u64(9).take();
  Reader in(bytes);
  in.u8();
  try {
    in.below(5, "a dtype");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "bad message: expected a dtype below 5, not 9 at byte 2 of 2");
  }
}

TEST(Reader, NoticesWhatIsLeftOver) {
  const auto bytes = Writer().u8(1).u8(2).take();
  Reader in(bytes);
  in.u8();
  EXPECT_THROW(in.finish(), Error);
}

}  // namespace
}  // namespace hora
