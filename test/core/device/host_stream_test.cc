// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hora {
namespace {

TEST(HostStream, CopiesAndZeroes) {
  const auto stream = make_host_stream();
  const std::vector<float> from{1.5F, -2.0F, 0.25F};
  std::vector<float> to(3);
  stream->copy(to.data(), from.data(), 12);
  EXPECT_EQ(to, from);
  stream->set_bytes(to.data(), std::byte{0}, 12);
  EXPECT_EQ(to, std::vector<float>(3));
  stream->copy(nullptr, nullptr, 0);
}

TEST(HostStream, ConvertsAllMovesAndMultipliesThem) {
  const auto stream = make_host_stream();
  const std::vector<float> a(3000, 1.5F);
  const std::vector<float> b{-2.0F, 0.25F};
  std::vector<double> wide_a(3000);
  std::vector<double> wide_b(2);
  const std::vector<Move> moves{{wide_a.data(), a.data(), 3000}, {wide_b.data(), b.data(), 2}};
  stream->move(moves, {DType::float64, DType::float32});
  EXPECT_EQ(wide_a, std::vector<double>(3000, 1.5));
  EXPECT_EQ(wide_b, (std::vector<double>{-2.0, 0.25}));
  stream->move(moves, {DType::float64, DType::float32, 3.0});
  EXPECT_EQ(wide_a, std::vector<double>(3000, 4.5));
  EXPECT_EQ(wide_b, (std::vector<double>{-6.0, 0.75}));
}

TEST(HostStream, SetsTheFlagForWhatIsNotFiniteAndForNothingElse) {
  const auto stream = make_host_stream();
  const auto flag = stream->make_flag();
  std::vector<float> x(3000, 60000.0F);
  const Move looks{nullptr, x.data(), x.size()};
  stream->move({&looks, 1}, {DType::float32, DType::float32, 1.0, flag.get()});
  EXPECT_EQ(*flag, 0u);
  std::vector<std::uint16_t> half(x.size());
  x.back() = 70000.0F;  // more than float16 has
  const Move narrows{half.data(), x.data(), x.size()};
  stream->move({&narrows, 1}, {DType::float16, DType::float32, 1.0, flag.get()});
  EXPECT_EQ(*flag, 1u);
  const auto other = stream->make_flag();
  x.back() = std::numeric_limits<float>::quiet_NaN();
  stream->move({&looks, 1}, {DType::float32, DType::float32, 1.0, other.get()});
  EXPECT_EQ(*other, 1u);
}

TEST(HostStream, SumsInFloat32AndRoundsOnce) {
  const auto stream = make_host_stream();
  constexpr std::uint16_t kBig = 0x6800;  // 2048 in float16, whose neighbours are 2 apart
  constexpr std::uint16_t kOne = 0x3c00;  // 1
  std::vector<std::uint16_t> big{kBig};
  std::vector<std::uint16_t> one{kOne};
  const std::vector<const void*> sources{big.data(), one.data(), one.data()};
  stream->sum(one.data(), sources, 1, DType::float16, 1.0);
  EXPECT_EQ(one.front(), 0x6801) << "2050, and not 2048 twice rounded";
}

TEST(HostStream, HasDoneEverythingWhenItReturns) { EXPECT_EQ(make_host_stream()->mark(), nullptr); }

}  // namespace
}  // namespace hora
