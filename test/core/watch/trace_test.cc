// SPDX-License-Identifier: Apache-2.0
#include "core/watch/trace.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::microseconds;

TracePart part() {
  const TimePoint now = TimePoint() + std::chrono::hours(1);
  TracePart part{now, 1'700'000'000'000'000'000, {}, {now - microseconds(7)}, true};
  Traced traced;
  traced.record = {"w",
                   Operation::allgather,
                   DType::float16,
                   {3, 4},
                   now - microseconds(90),
                   now - microseconds(80),
                   now - microseconds(70),
                   now - microseconds(10),
                   Code::mismatch};
  traced.group = 3;
  traced.together = 12;
  traced.spans = {{Stage::pack, now - microseconds(60), now - microseconds(50)}};
  part.operations.push_back(traced);
  return part;
}

TEST(TracePart, ComesBackAsItWasSent) {
  const TracePart sent = part();
  const TracePart got = decode_trace(encode(sent));
  EXPECT_EQ(got.now, sent.now);
  EXPECT_EQ(got.wall, sent.wall);
  EXPECT_EQ(got.cycles, sent.cycles);
  EXPECT_TRUE(got.last);
  ASSERT_EQ(got.operations.size(), 1u);
  const auto& [record, group, together, spans] = got.operations.front();
  EXPECT_EQ(record.name, "w");
  EXPECT_EQ(record.shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(record.submitted, sent.operations.front().record.submitted);
  EXPECT_EQ(record.finished, sent.operations.front().record.finished);
  EXPECT_EQ(record.code, Code::mismatch);
  EXPECT_EQ(group, 3);
  EXPECT_EQ(together, 12);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans.front().end, sent.operations.front().spans.front().end);
}

TEST(DecodeTrace, RefusesEveryTruncation) {
  const auto bytes = encode(part());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_trace(std::span(bytes).first(length)), Error) << length;
}

}  // namespace
}  // namespace hora
