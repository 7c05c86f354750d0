// SPDX-License-Identifier: Apache-2.0
#include "core/comm/delivery.h"

#include <gtest/gtest.h>

#include <array>

namespace hora {
namespace {

TEST(Delivery, KnowsHowManyBytesAMessageHas) {
  EXPECT_EQ(content_bytes({0, 0, DType::float64, {}}), 8U);
  EXPECT_EQ(content_bytes({0, 0, DType::float16, {3, 5}}), 30U);
  EXPECT_EQ(content_bytes({0, 0, DType::int64, {std::int64_t{1} << 40, 0, std::int64_t{1} << 40}}), 0U);
  EXPECT_EQ(content_bytes({0, 0, DType::uint8, {std::int64_t{1} << 62}}), std::size_t{1} << 62);
  EXPECT_THROW(static_cast<void>(content_bytes({0, 0, DType::uint8, {(std::int64_t{1} << 62) + 1}})), Error);
  EXPECT_THROW(static_cast<void>(content_bytes({0, 0, DType::uint8, {0, -1}})), Error);
  EXPECT_THROW(
      static_cast<void>(content_bytes({0, 0, DType::int64, {std::int64_t{1} << 40, std::int64_t{1} << 40}})),
      Error);
}

TEST(Delivery, CopiesWhatThereIs) {
  const std::array<std::int16_t, 2> values{3, -4};
  const auto copy = copy_of(values.data(), sizeof values);
  EXPECT_EQ(reinterpret_cast<const std::int16_t*>(copy.get())[1], -4);
  EXPECT_NE(copy_of(nullptr, 0), nullptr);
}

TEST(Delivery, TellsWhatWasFoundWhetherItIsWantedOrNot) {
  const Envelope envelope{2, 3, DType::int16, {2}};
  const std::array<std::int16_t, 2> values{3, -4};
  std::array<std::int16_t, 2> output{};
  Status told{Code::internal, "nothing yet"};
  std::optional<Envelope> found;
  Incoming wanted{{2, 3},
                  [&](const Envelope&) { return output.data(); },
                  [&](const Status& status, const Envelope* came) {
                    told = status;
                    found = *came;
                  }};
  deliver(wanted, envelope, values.data());
  EXPECT_EQ(told, Status{});
  EXPECT_EQ(found, envelope);
  EXPECT_EQ(output, values);
  wanted.memory_for = [](const Envelope&) -> void* { throw Error(Code::mismatch, "no"); };
  found.reset();
  deliver(wanted, envelope, values.data());
  EXPECT_EQ(told, (Status{Code::mismatch, "no"}));
  EXPECT_EQ(found, envelope);
}

TEST(Delivery, TellsAllWhoWaitThatNothingComes) {
  Calls calls;
  int told = 0;
  std::list<Incoming> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back({{0, i}, {}, [&](const Status& status, const Envelope* found) {
                         told += status.message == "over" && found == nullptr ? 1 : 0;
                       }});
  }
  fail(std::move(waiting), {Code::aborted, "over"}, calls);
  EXPECT_EQ(told, 0);
  hora::run(calls);
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace hora
