// SPDX-License-Identifier: Apache-2.0
// The results of a GPU's Stream against those of the host's, bit for bit. The GPU is the first one of the
// driver that the process finds: a real one, or a fake one.
#include "core/backend/cuda/driver.h"
#include "core/backend/cuda/gpu.h"
#include "core/device/host_stream.h"
#include "test/gpu/mirror.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace hora {
namespace {

constexpr std::array kFloats{DType::float16, DType::bfloat16, DType::float32, DType::float64};
constexpr std::array kFactors{1.0, 0.5, 1.0 / 3, -3.0, 1e-3};
constexpr std::size_t kMost = std::size_t{1} << 16;  // bytes between the begins of two tensors, at least

/// Where a tensor lies in both memories, in bytes, and how many elements it has. A value.
struct Offsets {
  std::size_t to;
  std::size_t from;
  std::size_t count;
};

class GpuStream : public testing::Test {
 protected:
  std::vector<std::byte> random_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }

  /// Bits of all kinds, but NaNs, of which CPUs and GPUs may make different ones.
  std::vector<std::byte> random_numbers(std::size_t size, DType dtype) {
    auto bytes = random_bytes(size);
    const std::size_t each = size_of(dtype);
    for (std::size_t i = 0; is_float(dtype) && i + each <= size; i += each) {
      double wide = 0;
      const Move widen{&wide, bytes.data() + i, 1};
      host_->move({&widen, 1}, {DType::float64, dtype});
      if (std::isnan(wide))
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i), each, std::byte{0x35});
    }
    return bytes;
  }

  /// Tensors of sizes around those at which something changes, at all alignments.
  std::vector<Offsets> offsets(std::size_t to_size, std::size_t from_size) {
    std::vector<Offsets> offsets;
    std::size_t begin = 0;
    for (const std::size_t count :
         {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 1023, 1025, 4099}) {
      for (const std::size_t shift : {0, 1, 3, 4}) {
        offsets.push_back({begin + shift * to_size, begin + (random_() % 9) * from_size, count});
        begin += kMost;
      }
    }
    return offsets;
  }

  static std::vector<Move> moves(std::span<const Offsets> offsets, std::byte* to, const std::byte* from) {
    std::vector<Move> moves;
    for (const auto& one : offsets) moves.push_back({to + one.to, from + one.from, one.count});
    return moves;
  }

  void expect_same_move(std::span<const Offsets> offsets, const Conversion& conversion) {
    std::size_t size = 64;
    for (const auto& one : offsets) {
      size = std::max({size, one.to + one.count * size_of(conversion.to) + 64,
                       one.from + one.count * size_of(conversion.from) + 64});
    }
    const bool copies = conversion.to == conversion.from && conversion.factor == 1.0;
    Mirror from(*gpu_, *stream_, copies ? random_bytes(size) : random_numbers(size, conversion.from));
    Mirror to(*gpu_, *stream_, random_bytes(size));  // what was there before must stay between tensors
    host_->move(moves(offsets, to.host(), from.host()), conversion);
    stream_->move(moves(offsets, to.gpu(), from.gpu()), conversion);
    const auto got = to.read();
    EXPECT_EQ(first_difference(got, to.expected()), size) << fmt::format(
        "{} from {}, factor {}", name(conversion.to), name(conversion.from), conversion.factor);
  }

  /// Finite floats of which many are large, small and negative.
  std::vector<std::byte> random_floats(DType dtype, std::size_t count) {
    std::normal_distribution<float> normal(0.0F, 100.0F);
    std::vector<float> wide(count);
    for (auto& value : wide) value = normal(random_);
    std::vector<std::byte> bytes(count * size_of(dtype));
    const Move narrow{bytes.data(), wide.data(), count};
    host_->move({&narrow, 1}, {dtype, DType::float32});
    return bytes;
  }

  void finish() {
    const auto end = stream_->mark();
    while (end && !end->reached()) continue;
  }

  std::mt19937 random_{std::random_device{}()};
  std::shared_ptr<cuda::CudaGpu> gpu_ = cuda::open_cuda_gpu(cuda::load_driver(), 0);
  std::unique_ptr<Stream> stream_ = gpu_->make_stream();
  std::unique_ptr<Stream> host_ = make_host_stream();
};

TEST_F(GpuStream, ConvertsEveryFloatToEveryOtherAsTheHostDoes) {
  for (const auto to : kFloats) {
    for (const auto from : kFloats) {
      for (const double factor : kFactors)
        expect_same_move(offsets(size_of(to), size_of(from)), {to, from, factor});
    }
  }
}

TEST_F(GpuStream, CopiesElementsOfEveryDtypeAtEveryAlignment) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    expect_same_move(offsets(size_of(dtype), size_of(dtype)), {dtype, dtype});
    expect_same_move(offsets(1, 1), {dtype, dtype});  // not even aligned to their own size
  }
}

TEST_F(GpuStream, MovesThousandsOfTensorsAndALargeOneAtOnce) {
  std::vector<Offsets> offsets;
  std::size_t begin = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t count = random_() % 40;
    offsets.push_back({begin + random_() % 4 * 4, begin + random_() % 4 * 4, count});
    begin += 256;
  }
  offsets.insert(offsets.begin() + 2500, {begin + 4, begin + 8, 1'500'000});
  for (const auto& conversion :
       {Conversion{DType::float32, DType::float32}, Conversion{DType::float32, DType::float32, 0.125},
        Conversion{DType::float16, DType::float32, 1.0 / 3}}) {
    expect_same_move(offsets, conversion);
  }
}

TEST_F(GpuStream, MovesInPlace) {
  for (const auto& conversion :
       {Conversion{DType::float32, DType::float32, 0.3}, Conversion{DType::float16, DType::bfloat16, 3.0},
        Conversion{DType::bfloat16, DType::float16, 1.0}}) {
    Mirror both(*gpu_, *stream_, random_numbers(100'000, conversion.from));
    const std::vector<Offsets> offsets{{0, 0, 1}, {256, 256, 17}, {1028, 1028, 20'000}};
    host_->move(moves(offsets, both.host(), both.host()), conversion);
    stream_->move(moves(offsets, both.gpu(), both.gpu()), conversion);
    const auto got = both.read();
    EXPECT_EQ(got, both.expected());
  }
}

TEST_F(GpuStream, SetsTheFlagForWhatIsNotFiniteWhereverItIsAndForNothingElse) {
  constexpr std::size_t kCount = 3000;
  for (const auto dtype : kFloats) {
    const std::size_t size = size_of(dtype);
    std::vector<std::byte> poison(size);
    const float infinite = std::numeric_limits<float>::infinity();
    const Move narrow{poison.data(), &infinite, 1};
    host_->move({&narrow, 1}, {dtype, DType::float32});
    for (const std::size_t where : {kCount, std::size_t{0}, std::size_t{2}, kCount / 2, kCount - 1}) {
      for (const std::size_t shift : {0, 1}) {
        auto values = random_floats(dtype, kCount + 1 + shift);
        if (where < kCount) std::copy(poison.begin(), poison.end(), values.begin() + (where + shift) * size);
        Mirror from(*gpu_, *stream_, values);
        Mirror to(*gpu_, *stream_, random_bytes(values.size()));
        const auto looks = stream_->make_flag();
        const auto converts = stream_->make_flag();
        const Move look{nullptr, from.gpu(shift * size), kCount};
        const Move convert{to.gpu(), from.gpu(shift * size), kCount};
        stream_->move({&look, 1}, {dtype, dtype, 1.0, looks.get()});
        stream_->move({&convert, 1}, {dtype, dtype, 0.5, converts.get()});
        finish();
        EXPECT_EQ(*looks, where < kCount ? 1U : 0U) << name(dtype) << " at " << where << ", " << shift;
        EXPECT_EQ(*converts, *looks) << name(dtype) << " at " << where << ", " << shift;
      }
    }
  }
}

TEST_F(GpuStream, KeepsWhatIsNotANumber) {
  for (const auto to : kFloats) {
    for (const auto from : kFloats) {
      std::vector<double> wide(1000, std::numeric_limits<double>::quiet_NaN());
      for (std::size_t i = 0; i < wide.size(); i += 3) wide[i] = 1.5;
      std::vector<std::byte> bytes(wide.size() * size_of(from));
      const Move narrow{bytes.data(), wide.data(), wide.size()};
      host_->move({&narrow, 1}, {from, DType::float64});
      Mirror source(*gpu_, *stream_, bytes);
      Mirror target(*gpu_, *stream_, std::vector<std::byte>(wide.size() * size_of(to)));
      const Move move{target.gpu(), source.gpu(), wide.size()};
      stream_->move({&move, 1}, {to, from, 2.0});
      const auto got = target.read();
      const Move widen{wide.data(), got.data(), wide.size()};
      host_->move({&widen, 1}, {DType::float64, to});
      for (std::size_t i = 0; i < wide.size(); ++i)
        ASSERT_TRUE(i % 3 == 0 ? wide[i] == 3.0 : std::isnan(wide[i])) << name(to) << " from " << name(from);
    }
  }
}

TEST_F(GpuStream, SetsTheFlagForResultsThatAreTooLarge) {
  std::vector<std::byte> bytes(4000);
  const float large = 60000.0F;
  for (std::size_t i = 0; i < bytes.size(); i += 4) std::memcpy(bytes.data() + i, &large, 4);
  Mirror from(*gpu_, *stream_, bytes);
  Mirror to(*gpu_, *stream_, bytes);
  const Move move{to.gpu(), from.gpu(), 1000};
  for (const double factor : {1.0, 2.0}) {
    const auto flag = stream_->make_flag();
    stream_->move({&move, 1}, {DType::float16, DType::float32, factor, flag.get()});
    finish();
    EXPECT_EQ(*flag, factor == 1.0 ? 0U : 1U);
  }
}

TEST_F(GpuStream, SumsInTheOrderOfItsSourcesAsTheHostDoes) {
  for (const auto dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    const std::size_t size = size_of(dtype);
    for (const std::size_t sources : {1, 2, 3, 8, 600}) {
      for (const std::size_t count : {1, 7, 1000, 4099}) {
        const std::size_t shift = random_() % 2;  // one that not all of them have
        const std::size_t each = (count + 16) * size;
        Mirror from(*gpu_, *stream_, random_floats(dtype, sources * (count + 16)));
        Mirror to(*gpu_, *stream_, random_bytes(each));
        std::vector<const void*> on_host;
        std::vector<const void*> on_gpu;
        for (std::size_t i = 0; i < sources; ++i) {
          const std::size_t begin = i * each / 16 * 16 + (i % 2) * shift * size;
          on_host.push_back(from.host(begin));
          on_gpu.push_back(from.gpu(begin));
        }
        host_->sum(to.host(), on_host, count, dtype, 0.3);
        stream_->sum(to.gpu(), on_gpu, count, dtype, 0.3);
        const auto got = to.read();
        EXPECT_EQ(got, to.expected()) << name(dtype) << " of " << sources << ", " << count;
        if (sources > 8) continue;
        host_->sum(from.host(), on_host, count, dtype, 1.0);  // into one of them
        stream_->sum(from.gpu(), on_gpu, count, dtype, 1.0);
        const auto in_place = from.read();
        EXPECT_EQ(in_place, from.expected()) << name(dtype) << " of " << sources << ", " << count;
      }
    }
  }
}

TEST_F(GpuStream, MakesAndSumsBlocksAsTheHostDoes) {
  constexpr std::size_t kElements = 1 << 20;
  constexpr std::size_t kBlocks = kElements / kBlockFloats;
  constexpr std::size_t kBytes = kBlocks * kBlockBytes;
  const auto place = [](std::byte* at) { return BlockFloats{at, at + kElements}; };
  for (const DType format : {DType::float8_e4m3fn, DType::float8_e5m2}) {
    for (const auto dtype : kFloats) {
      const std::size_t count = kElements - 5;
      Mirror plain(*gpu_, *stream_, random_bytes(kElements * size_of(dtype)));  // NaN and infinite ones, too
      Mirror blocks(*gpu_, *stream_, std::vector<std::byte>(2 * kBytes));
      Mirror back(*gpu_, *stream_, std::vector<std::byte>(kElements * size_of(dtype)));
      const BlockMove there{place(blocks.gpu()), plain.gpu(), back.gpu(), count};
      const BlockMove here{place(blocks.host()), plain.host(), back.host(), count};
      const std::vector<BlockFloats> sources{place(blocks.gpu()), place(blocks.gpu())};
      const std::vector<BlockFloats> hosts{place(blocks.host()), place(blocks.host())};
      stream_->quantize({&there, 1}, {format, dtype, 1.0 / 3});
      host_->quantize({&here, 1}, {format, dtype, 1.0 / 3});
      stream_->sum_blocks(place(blocks.gpu(kBytes)), sources, format, kBlocks, 0.3);
      host_->sum_blocks(place(blocks.host(kBytes)), hosts, format, kBlocks, 0.3);
      stream_->dequantize({&there, 1}, {format, dtype});
      host_->dequantize({&here, 1}, {format, dtype});
      const auto made = blocks.read();
      const auto results = back.read();
      EXPECT_EQ(first_difference(made, blocks.expected()), made.size()) << name(format) << name(dtype);
      EXPECT_EQ(first_difference(results, back.expected()), results.size()) << name(format) << name(dtype);
    }
  }
}

TEST_F(GpuStream, CopiesAndZeroesBytes) {
  Mirror from(*gpu_, *stream_, random_bytes(70'000));
  Mirror to(*gpu_, *stream_, random_bytes(70'000));
  host_->copy(to.host(3), from.host(5), 60'001);
  stream_->copy(to.gpu(3), from.gpu(5), 60'001);
  host_->set_bytes(to.host(100), std::byte{0}, 1001);
  stream_->set_bytes(to.gpu(100), std::byte{0}, 1001);
  const auto got = to.read();
  EXPECT_EQ(got, to.expected());
}

TEST_F(GpuStream, WaitsForWhatOtherStreamsOfTheGpuDo) {
  const auto other = gpu_->make_stream();
  Mirror a(*gpu_, *stream_, random_bytes(8 << 20));
  Mirror b(*gpu_, *stream_, random_bytes(8 << 20));
  Mirror c(*gpu_, *stream_, random_bytes(8 << 20));
  const std::size_t count = std::size_t{2} << 20;
  const Move first{b.gpu(), a.gpu(), count};
  const Move second{c.gpu(), b.gpu(), count};
  other->move({&first, 1}, {DType::float32, DType::float32});
  stream_->wait(*other->mark());
  stream_->move({&second, 1}, {DType::float32, DType::float32});
  const auto got = c.read();
  EXPECT_EQ(got, a.expected());
}

}  // namespace
}  // namespace hora
