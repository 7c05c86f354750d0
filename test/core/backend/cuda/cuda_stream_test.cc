// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/cuda_stream.h"

#include "core/backend/cuda/gpu.h"
#include "core/device/host_stream.h"
#include "core/device/kernels.h"
#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

constexpr std::array kFloats{DType::float16, DType::bfloat16, DType::float32, DType::float64};

class CudaStreamTest : public testing::Test {
 protected:
  /// The GPU's memory with these bytes.
  std::shared_ptr<std::byte> upload(const std::vector<std::byte>& bytes) {
    auto memory = gpu->allocate(bytes.size());
    std::memcpy(memory.get(), bytes.data(), bytes.size());
    return memory;
  }
  void finish() { wait_for(stream->mark().get()); }

  FakeDriver fake;
  std::shared_ptr<CudaGpu> gpu = open_cuda_gpu(fake.table(), 0);
  std::unique_ptr<Stream> stream = gpu->make_stream();
};

/// Bits of all kinds: ordinary numbers, some that are subnormal, infinite or not numbers.
std::vector<std::byte> bits(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> made(bytes);
  for (auto& each : made) each = static_cast<std::byte>(random());
  return made;
}

bool is_nan(const std::byte* element, DType dtype) {
  double wide = 0;
  kernels::cast(&wide, DType::float64, element, dtype, 1);
  return std::isnan(wide);
}

/// Bit for bit; but any NaN for a NaN, which CPUs do not agree about either.
void expect_same(const std::byte* made, const std::byte* expected, std::size_t count, DType dtype) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* one = made + i * size_of(dtype);
    const std::byte* other = expected + i * size_of(dtype);
    if (std::memcmp(one, other, size_of(dtype)) == 0) continue;
    ASSERT_TRUE(is_float(dtype) && is_nan(one, dtype) && is_nan(other, dtype)) << "element " << i;
  }
}

TEST_F(CudaStreamTest, ConvertsAsTheCpuDoes) {
  const auto host = make_host_stream();
  const std::vector<std::size_t> counts{0, 1, 7, 64, 1000};
  const std::size_t all = 2048;
  unsigned seed = 0;
  for (const DType to : kFloats) {
    for (const DType from : kFloats) {
      for (const double factor : {1.0, 0.5, 1.0 / 3}) {
        for (const std::size_t offset : {0, 1, 8}) {
          const auto source = bits(all * size_of(from), ++seed);
          const auto device_from = upload(source);
          const auto device_to = upload(std::vector<std::byte>(all * size_of(to)));
          std::vector<std::byte> expected(all * size_of(to));
          const auto device_flag = stream->make_flag();
          const auto host_flag = host->make_flag();
          std::vector<Move> device;
          std::vector<Move> hosts;
          std::size_t begin = offset;
          for (const std::size_t count : counts) {
            device.push_back({device_to.get() + begin * size_of(to),
                              device_from.get() + (begin + 1) * size_of(from), count});
            hosts.push_back(
                {expected.data() + begin * size_of(to), source.data() + (begin + 1) * size_of(from), count});
            begin += count + 3;
          }
          stream->move(device, {to, from, factor, device_flag.get()});
          host->move(hosts, {to, from, factor, host_flag.get()});
          finish();
          expect_same(device_to.get(), expected.data(), all, to);
          EXPECT_EQ(*device_flag, *host_flag);
        }
      }
    }
  }
}

TEST_F(CudaStreamTest, MovesAllDtypesAsTheyAre) {
  for (int dtype = 0; dtype < kDTypes; ++dtype) {
    const auto kind = static_cast<DType>(dtype);
    const auto source = bits(1000 * size_of(kind), 7);
    const auto from = upload(source);
    const auto to = upload(std::vector<std::byte>(source.size()));
    const Move move{to.get(), from.get(), 1000};
    const auto flag = stream->make_flag();
    stream->move({&move, 1}, {kind, kind, 1.0, is_float(kind) ? nullptr : flag.get()});
    finish();
    EXPECT_EQ(std::memcmp(to.get(), source.data(), source.size()), 0) << name(kind);
    EXPECT_EQ(*flag, 0U) << "what is no float is finite";
  }
}

TEST_F(CudaStreamTest, MovesWithinOnePlace) {
  const auto memory = gpu->allocate(4 * sizeof(float));
  auto* values = reinterpret_cast<float*>(memory.get());
  values[0] = 1.5F;
  values[3] = -2.0F;
  const Move move{values, values, 4};
  stream->move({&move, 1}, {DType::float32, DType::float32, 2.0});
  finish();
  EXPECT_EQ(values[0], 3.0F);
  EXPECT_EQ(values[3], -4.0F);
  const int launches = fake.calls("cuLaunchKernel");
  stream->move({&move, 1}, {DType::float32, DType::float32});
  EXPECT_EQ(fake.calls("cuLaunchKernel"), launches) << "there is nothing to do";
}

TEST_F(CudaStreamTest, LooksAtWhatItDoesNotMove) {
  const auto memory = gpu->allocate(3 * sizeof(float));
  auto* values = reinterpret_cast<float*>(memory.get());
  const auto half = gpu->allocate(3 * sizeof(std::uint16_t));
  values[1] = 70000.0F;  // more than float16 has
  const Move looks{nullptr, values, 3};
  const auto flag = stream->make_flag();
  stream->move({&looks, 1}, {DType::float16, DType::float32, 1.0, flag.get()});
  finish();
  EXPECT_EQ(*flag, 0U);
  const std::vector<Move> both{looks, {half.get(), values, 3}};
  stream->move(both, {DType::float16, DType::float32, 1.0, flag.get()});
  finish();
  EXPECT_EQ(*flag, 1U);
  const auto other = stream->make_flag();
  values[1] = std::numeric_limits<float>::quiet_NaN();
  const Move stays{values, values, 3};
  stream->move({&stays, 1}, {DType::float32, DType::float32, 1.0, other.get()});
  finish();
  EXPECT_EQ(*other, 1U) << "what stays where it is, too";
}

TEST_F(CudaStreamTest, MovesAWholeBatchInOneLaunch) {
  constexpr std::size_t kTensors = 1000;
  const auto from = gpu->allocate(kTensors * 16);
  const auto to = gpu->allocate(kTensors * 16);
  std::vector<Move> moves;
  for (std::size_t i = 0; i < kTensors; ++i) {
    from.get()[16 * i] = static_cast<std::byte>(i);
    moves.push_back({to.get() + 16 * i, from.get() + 16 * i, 1 + i % 4});
  }
  const int before = fake.calls("cuLaunchKernel");
  stream->move(moves, {DType::int32, DType::int32});
  EXPECT_EQ(fake.calls("cuLaunchKernel"), before + 1);
  finish();
  for (std::size_t i = 0; i < kTensors; ++i) EXPECT_EQ(to.get()[16 * i], static_cast<std::byte>(i));
}

TEST_F(CudaStreamTest, MovesThousandsInAsManyLaunchesAsTheyNeed) {
  constexpr std::size_t kTensors = 5000;
  const auto from = gpu->allocate(kTensors * sizeof(float));
  const auto to = gpu->allocate(kTensors * sizeof(double));
  std::vector<Move> moves;
  for (std::size_t i = 0; i < kTensors; ++i) {
    reinterpret_cast<float*>(from.get())[i] = static_cast<float>(i);
    moves.push_back({to.get() + i * sizeof(double), from.get() + i * sizeof(float), 1});
  }
  for (const int version : {13000, 12000}) {
    fake.set_version(version);
    const auto fresh = open_cuda_gpu(fake.table(), 0);
    const auto own = fresh->make_stream();
    const int before = fake.calls("cuLaunchKernel");
    own->set_bytes(to.get(), std::byte{0}, kTensors * sizeof(double));
    own->move(moves, {DType::float64, DType::float32});
    wait_for(own->mark().get());
    EXPECT_EQ(fake.calls("cuLaunchKernel"), before + (version == 13000 ? 5 : 35));
    for (std::size_t i = 0; i < kTensors; ++i)
      ASSERT_EQ(reinterpret_cast<double*>(to.get())[i], static_cast<double>(i));
  }
}

TEST_F(CudaStreamTest, SumsAsTheCpuDoes) {
  const auto host = make_host_stream();
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    for (const std::size_t many : {1, 2, 7}) {
      for (const std::size_t offset : {0, 1, 8}) {
        constexpr std::size_t kCount = 1003;
        std::vector<std::shared_ptr<std::byte>> memory;
        std::vector<std::vector<std::byte>> copies;
        std::vector<const void*> sources;
        std::vector<const void*> hosts;
        for (std::size_t i = 0; i < many; ++i) {
          copies.push_back(bits((kCount + offset) * size_of(dtype), static_cast<unsigned>(i)));
          memory.push_back(upload(copies.back()));
          sources.push_back(memory.back().get() + offset * size_of(dtype));
        }
        for (const auto& copy : copies) hosts.push_back(copy.data() + offset * size_of(dtype));
        std::vector<std::byte> expected(kCount * size_of(dtype));
        host->sum(expected.data(), hosts, kCount, dtype, 0.25);
        auto* to = const_cast<void*>(sources.back());  // one of them
        stream->sum(to, sources, kCount, dtype, 0.25);
        finish();
        expect_same(static_cast<std::byte*>(to), expected.data(), kCount, dtype);
      }
    }
  }
}

constexpr std::array kBlockFormats{DType::float8_e4m3fn, DType::float8_e5m2};

/// Elements of all bits, aligned as their dtype or more, as blocks and back; NaN and infinite ones, too.
TEST_F(CudaStreamTest, MakesBlocksAndElementsOfThemAsTheCpuDoes) {
  const auto host = make_host_stream();
  const std::vector<std::size_t> counts{0, 1, 3, 31, 32, 33, 1000, 1024, 5003};
  constexpr std::size_t kMost = 16384;  // elements of all
  unsigned seed = 100;
  for (const DType format : kBlockFormats) {
    for (const DType dtype : kFloats) {
      for (const double factor : {1.0, 1.0 / 3}) {
        for (const std::size_t offset : {0, 1}) {
          const std::size_t size = size_of(dtype);
          const auto source = bits(kMost * size, ++seed);
          const auto device_source = upload(source);
          const auto device_target = upload(std::vector<std::byte>(kMost * size));
          const auto device_blocks = upload(std::vector<std::byte>(kMost * 2));
          std::vector<std::byte> target(kMost * size);
          std::vector<std::byte> blocks(kMost * 2);
          const auto moves = [&](std::byte* to, const std::byte* from, std::byte* in_blocks) {
            std::vector<BlockMove> all;
            std::size_t begin = 0;
            for (const std::size_t count : counts) {
              const std::size_t skipped = (begin + offset) * size;
              all.push_back({{in_blocks + begin, in_blocks + kMost + begin / kBlockFloats},
                             from + skipped,
                             to + skipped,
                             count});
              begin += blocks_of(count) * kBlockFloats + kBlockFloats;
            }
            return all;
          };
          const auto device_flag = stream->make_flag();
          const auto host_flag = host->make_flag();
          const auto on_device = moves(device_target.get(), device_source.get(), device_blocks.get());
          const auto on_host = moves(target.data(), source.data(), blocks.data());
          stream->quantize(on_device, {format, dtype, factor});
          stream->dequantize(on_device, {format, dtype, 1.0, device_flag.get()});
          finish();
          host->quantize(on_host, {format, dtype, factor});
          host->dequantize(on_host, {format, dtype, 1.0, host_flag.get()});
          ASSERT_EQ(std::memcmp(device_blocks.get(), blocks.data(), blocks.size()), 0) << name(dtype);
          ASSERT_EQ(std::memcmp(device_target.get(), target.data(), target.size()), 0) << name(dtype);
          EXPECT_EQ(*device_flag, *host_flag);
        }
      }
    }
  }
}

TEST_F(CudaStreamTest, SumsBlocksAsTheCpuDoes) {
  const auto host = make_host_stream();
  for (const DType format : kBlockFormats) {
    for (const std::size_t many : {1, 2, 7, 300}) {
      for (const std::size_t blocks : {1, 16, 33, 200}) {
        std::vector<std::shared_ptr<std::byte>> memory;
        std::vector<BlockFloats> sources;
        const auto place = [=](std::byte* at) { return BlockFloats{at, at + blocks * kBlockFloats}; };
        for (std::size_t i = 0; i < many; ++i) {
          auto made = bits(blocks * kBlockBytes, static_cast<unsigned>(i));
          for (std::size_t k = 0; k < blocks; ++k) {
            std::byte& scale = made[blocks * kBlockFloats + k];
            scale = static_cast<std::byte>(static_cast<int>(scale) % 240);
          }
          memory.push_back(upload(made));
          sources.push_back(place(memory.back().get()));
        }
        const auto to = upload(std::vector<std::byte>(blocks * kBlockBytes));
        std::vector<std::byte> expected(blocks * kBlockBytes);
        stream->sum_blocks(place(to.get()), sources, format, blocks, 0.3);
        finish();
        host->sum_blocks(place(expected.data()), sources, format, blocks, 0.3);
        ASSERT_EQ(std::memcmp(to.get(), expected.data(), expected.size()), 0)
            << name(format) << ", " << many << " of " << blocks;
      }
    }
  }
}

TEST_F(CudaStreamTest, MakesBlocksOfThousandsOfTensorsInAsManyLaunchesAsTheyNeed) {
  constexpr std::size_t kTensors = 2000;
  const auto from = gpu->allocate(kTensors * sizeof(float));
  const auto to = gpu->allocate(kTensors * sizeof(float));
  const auto blocks = gpu->allocate(kTensors * kBlockBytes);
  std::vector<BlockMove> moves;
  for (std::size_t i = 0; i < kTensors; ++i) {
    auto* source = reinterpret_cast<float*>(from.get()) + i;
    *source = static_cast<float>(i % 16);
    moves.push_back({{blocks.get() + i * kBlockFloats, blocks.get() + kTensors * kBlockFloats + i},
                     source,
                     reinterpret_cast<float*>(to.get()) + i,
                     1});
  }
  const int before = fake.calls("cuLaunchKernel");
  stream->quantize(moves, {DType::float8_e4m3fn, DType::float32});
  EXPECT_EQ(fake.calls("cuLaunchKernel"), before + 3);
  stream->dequantize(moves, {DType::float8_e4m3fn, DType::float32});
  finish();
  EXPECT_EQ(std::memcmp(to.get(), from.get(), kTensors * sizeof(float)), 0);
}

TEST_F(CudaStreamTest, SumsThousandsOfArrays) {
  const auto memory = gpu->allocate(3 * sizeof(float));
  auto* values = reinterpret_cast<float*>(memory.get());
  values[0] = 0.5F;
  std::vector<const void*> sources(4000, values);
  stream->sum(values + 1, sources, 1, DType::float32, 1.0);
  stream->sum(values + 1, sources, 0, DType::float32, 1.0);
  finish();
  EXPECT_EQ(values[1], 2000.0F);
  sources.resize(5000, values);
  const Status status = thrown([&] { stream->sum(values, sources, 1, DType::float32, 1.0); });
  EXPECT_EQ(status.message, "cannot sum 5000 arrays on cuda:0: from 1 to 4091 with this driver");
}

TEST_F(CudaStreamTest, CopiesBetweenHostAndGpuInOrder) {
  const auto pinned = gpu->allocate_pinned(100);
  const auto memory = gpu->allocate(100);
  const auto back = gpu->allocate_pinned(100);
  std::memset(pinned.get(), 7, 100);
  stream->copy(memory.get(), pinned.get(), 100);
  stream->set_bytes(memory.get(), std::byte{0}, 50);
  stream->copy(back.get(), memory.get(), 100);
  stream->copy(nullptr, nullptr, 0);
  stream->set_bytes(nullptr, std::byte{0}, 0);
  finish();
  EXPECT_EQ(back.get()[49], std::byte{0});
  EXPECT_EQ(back.get()[50], std::byte{7});
}

TEST_F(CudaStreamTest, WaitsForTheProducerAndHoldsTheConsumerUp) {
  const auto produced = gpu->allocate(4);
  const auto result = gpu->allocate(4);
  const CUstream producer = fake.make_stream(0);
  const CUstream consumer = fake.make_stream(0);
  const auto seen = gpu->allocate_pinned(4);
  const CurrentContext current(*gpu->context());
  HeldStream gate(producer);
  const CudaDriver driver = fake.table();
  driver.memset_d8_async(reinterpret_cast<CUdeviceptr>(produced.get()), 3, 4, producer);
  stream->wait(*gpu->mark(producer));
  stream->copy(result.get(), produced.get(), 4);
  const auto done = stream->mark();
  done->hold_up(consumer);
  driver.memcpy_async(reinterpret_cast<CUdeviceptr>(seen.get()), reinterpret_cast<CUdeviceptr>(result.get()),
                      4, consumer);
  const auto consumed = gpu->mark(consumer);
  EXPECT_FALSE(done->reached());
  gate.open();
  wait_for(consumed.get());
  EXPECT_EQ(seen.get()[3], std::byte{3});
}

TEST_F(CudaStreamTest, SaysThatTheGpuHasFailed) {
  const auto memory = gpu->allocate(4);
  const auto event = stream->mark();
  fake.fail(0, CUDA_ERROR_LAUNCH_FAILED);
  const Status status = thrown([&] { stream->set_bytes(memory.get(), std::byte{0}, 4); });
  EXPECT_EQ(status.code, Code::internal);
  EXPECT_EQ(status.message,
            "cuMemsetD8Async (cuda:0) failed with CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure");
  EXPECT_THAT(thrown([&] { (void)event->reached(); }).message,
              HasSubstr("cuEventQuery (cuda:0) failed with"));
}

TEST_F(CudaStreamTest, BreaksTheGpuWithMemoryThatIsNotItsOwn) {
  std::vector<float> hosts(4);
  const auto memory = gpu->allocate(16);
  const Move move{memory.get(), hosts.data(), 4};
  stream->move({&move, 1}, {DType::float16, DType::float32});
  EXPECT_THAT(thrown([&] { wait_for(stream->mark().get()); }).message,
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(CudaStreamTest, TakesNoConversionOfWhatIsNoFloat) {
  const auto memory = gpu->allocate(16);
  const Move move{memory.get(), memory.get(), 4};
  EXPECT_EQ(thrown([&] { stream->move({&move, 1}, {DType::int32, DType::int32, 2.0}); }).code,
            Code::internal);
  EXPECT_EQ(thrown([&] { stream->move({&move, 1}, {DType::float32, DType::int32}); }).code, Code::internal);
  const void* source = memory.get();
  EXPECT_EQ(thrown([&] { stream->sum(memory.get(), {&source, 1}, 1, DType::float64, 1.0); }).code,
            Code::internal);
}

TEST_F(CudaStreamTest, LeavesNothingBehind) {
  auto event = stream->mark();
  auto flag = stream->make_flag();
  wait_for(event.get());
  stream = nullptr;
  gpu = nullptr;
  event = nullptr;
  EXPECT_NE(fake.usage(0), FakeUsage{});
  flag = nullptr;
  EXPECT_EQ(fake.usage(0), FakeUsage{});
}

}  // namespace
}  // namespace hora::cuda
