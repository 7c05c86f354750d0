// SPDX-License-Identifier: Apache-2.0
// The results of kernels.cu for elements at every address, beside those of the CPU: as it is compiled for two
// architectures, with small tables and with large ones.
#include "core/backend/cuda/kernels.h"

#include "core/backend/cuda/move_table.h"
#include "core/base/dtypes.h"
#include "core/device/host_stream.h"
#include "core/device/kernels.h"
#include "test/support/fake_gpu/fake_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace hora::cuda {
namespace {

constexpr std::array kCapabilities{75, 90};
constexpr std::size_t kShifts = 16;  // of an address
constexpr std::size_t kCount = 61;   // several units, and an edge on both sides
constexpr std::byte kUntouched{0xA5};

struct FloatFormat {
  DType dtype;
  std::string name;
  unsigned mantissa;  ///< its bits

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(size_of(dtype)); }
  [[nodiscard]] std::uint64_t payload() const { return (std::uint64_t{1} << mantissa) - 1; }
  [[nodiscard]] std::uint64_t sign() const { return std::uint64_t{1} << (8 * size() - 1); }
  /// All bits of the exponent.
  [[nodiscard]] std::uint64_t infinity() const { return (sign() - 1) & ~payload(); }
  [[nodiscard]] bool is_nan(std::uint64_t bits) const { return (bits & ~sign()) > infinity(); }
};
const std::array<FloatFormat, 4> kFloatFormats{{{DType::float16, "f16", 10},
                                                {DType::bfloat16, "bf16", 7},
                                                {DType::float32, "f32", 23},
                                                {DType::float64, "f64", 52}}};

/// AlignedMemory that is aligned as a unit is.
struct alignas(64) AlignedMemory {
  std::array<std::byte, 1024> bytes;

  explicit AlignedMemory(std::byte value = kUntouched) { bytes.fill(value); }
  std::byte* at(std::size_t offset = 0) { return bytes.data() + offset; }
  void put(std::size_t offset, AlignedMemory& from, std::size_t count) {
    std::copy_n(from.at(), count, at(offset));
  }
  bool operator==(const AlignedMemory&) const = default;
};

std::uint64_t number_at(const void* place) { return reinterpret_cast<std::uint64_t>(place); }

std::uint64_t bits_at(AlignedMemory& memory, std::size_t i, const FloatFormat& kind) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, memory.at(i * kind.size()), kind.size());
  return bits;
}

void set_bits(AlignedMemory& memory, std::size_t i, const FloatFormat& kind, std::uint64_t bits) {
  std::memcpy(memory.at(i * kind.size()), &bits, kind.size());
}

/// Elements of this kind, which lie at the beginning: ordinary numbers.
AlignedMemory numbers(const FloatFormat& kind, std::mt19937_64& random) {
  std::array<float, kCount> values{};
  std::uniform_real_distribution<float> ordinary(-2, 2);
  std::generate(values.begin(), values.end(), [&] { return ordinary(random); });
  AlignedMemory made;
  kernels::cast(made.at(), kind.dtype, values.data(), DType::float32, kCount);
  return made;
}

/// Of every seven one is infinite or not a number, and one subnormal.
AlignedMemory numbers_of_all_sorts(const FloatFormat& kind, std::mt19937_64& random) {
  AlignedMemory made = numbers(kind, random);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t bits = random() & (kind.sign() | (kind.sign() - 1));
    if (i % 7 == 3) set_bits(made, i, kind, bits | kind.infinity());
    if (i % 7 == 5) set_bits(made, i, kind, bits & ~kind.infinity());
  }
  return made;
}

/// The NaN that a conversion makes of another one. It has the sign. It has what there is room for of the
/// payload, but in float16. It is quiet; a bfloat16 becomes a float32 as it is.
std::uint64_t converted_nan(std::uint64_t bits, const FloatFormat& to, const FloatFormat& from,
                            double factor) {
  std::uint64_t payload = to.dtype == DType::float16 ? 0 : bits & from.payload();
  if (to.mantissa >= from.mantissa) {
    payload <<= to.mantissa - from.mantissa;
  } else {
    payload >>= from.mantissa - to.mantissa;
  }
  const bool as_it_is = from.dtype == DType::bfloat16 && to.dtype == DType::float32 && factor == 1.0;
  const std::uint64_t quiet = as_it_is ? 0 : std::uint64_t{1} << (to.mantissa - 1);
  return ((bits & from.sign()) != 0 ? to.sign() : 0) | to.infinity() | payload | quiet;
}

/// The results for `source`, at the beginning; `odd`: whether one is infinite or not a number.
AlignedMemory converted(AlignedMemory& source, const FloatFormat& to, const FloatFormat& from, double factor,
                        std::uint32_t& odd) {
  AlignedMemory results;
  const Move move{results.at(), source.at(), kCount};
  const auto host = make_host_stream();
  const auto flag = host->make_flag();
  host->move({&move, 1}, {to.dtype, from.dtype, factor, flag.get()});
  odd = *flag;
  if (to.dtype == from.dtype && factor == 1.0) return results;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t bits = bits_at(source, i, from);
    if (from.is_nan(bits)) set_bits(results, i, to, converted_nan(bits, to, from, factor));
  }
  return results;
}

template <typename Table>
void run_kernel(int capability, const std::string& name, const Table& table, unsigned grid) {
  const auto everything = [](const void*, std::size_t) { return true; };
  const std::string whole = sizeof(Table) > kParameterBytes ? name + "_large" : name;
  ASSERT_NE(fake_kernel(capability, whole), nullptr) << whole;
  ASSERT_TRUE(fake_kernel(capability, whole)->run(&table, grid, everything, nullptr)) << whole;
}

template <typename Table>
void run_move(int capability, const std::string& name, const Move& elements, std::uint32_t to_size,
              std::uint32_t from_size, double factor, std::uint32_t* flag) {
  const auto table = std::make_unique<Table>();
  table->flag = flag;
  table->factor = factor;
  const Filled filled = fill(*table, {&elements, 1}, to_size, from_size, 1);
  run_kernel(capability, name, *table, filled.tiles);
}

/// One pair of dtypes, at these offsets from an aligned address.
void expect_converted(int capability, const FloatFormat& to, const FloatFormat& from, std::size_t to_shift,
                      std::size_t from_shift, std::mt19937_64& random) {
  const bool ordinary = (to_shift + from_shift) % 3 != 0;
  AlignedMemory source = ordinary ? numbers(from, random) : numbers_of_all_sorts(from, random);
  if ((to_shift + from_shift) % 3 == 1)
    set_bits(source, (kShifts * to_shift + from_shift) % kCount, from, from.infinity());
  const double factor = random() % 2 == 0 ? 1.0 : 1.0 / 3;
  std::uint32_t odd = 0;
  AlignedMemory results = converted(source, to, from, factor, odd);
  AlignedMemory expected;
  expected.put(to_shift, results, kCount * to.size());
  AlignedMemory shifted;
  shifted.put(from_shift, source, kCount * from.size());
  AlignedMemory made;
  std::uint32_t flag = 0;
  const Move elements{made.at(to_shift), shifted.at(from_shift), kCount};
  const std::string name = "hora_move_" + to.name + "_" + from.name;
  const auto move_elements = random() % 2 == 0 ? run_move<SmallMoves> : run_move<LargeMoves>;
  move_elements(capability, name, elements, to.size(), from.size(), factor, &flag);
  ASSERT_TRUE(made == expected) << name << ", " << capability << ": from " << from_shift << " to "
                                << to_shift;
  ASSERT_EQ(flag, odd) << name << ", " << capability << ": from " << from_shift << " to " << to_shift;
}

TEST(UnalignedKernels, ConvertEveryFloatToEveryOtherAsTheCpuDoesAndKeepNan) {
  std::mt19937_64 random(1);
  for (const int capability : kCapabilities) {
    for (const auto& to : kFloatFormats) {
      for (const auto& from : kFloatFormats) {
        for (std::size_t shift = 0; shift < kShifts * kShifts; ++shift)
          expect_converted(capability, to, from, shift / kShifts, shift % kShifts, random);
      }
    }
  }
}

TEST(UnalignedKernels, CopyBytes) {
  constexpr std::size_t kBytes = 200;
  AlignedMemory source;
  std::mt19937_64 random(2);
  for (auto& each : source.bytes) each = static_cast<std::byte>(random());
  for (std::size_t shift = 0; shift < kShifts * kShifts; ++shift) {
    const std::size_t to_shift = shift / kShifts;
    const std::size_t from_shift = shift % kShifts;
    AlignedMemory expected;
    std::copy_n(source.at(from_shift), kBytes, expected.at(to_shift));
    AlignedMemory made;
    const auto move_elements = random() % 2 == 0 ? run_move<SmallMoves> : run_move<LargeMoves>;
    move_elements(90, "hora_copy", {made.at(to_shift), source.at(from_shift), kBytes}, 1, 1, 1.0, nullptr);
    ASSERT_TRUE(made == expected) << "from " << from_shift << " to " << to_shift;
  }
}

template <typename Table>
void run_sum(int capability, const FloatFormat& kind, std::byte* to,
             const std::vector<const void*>& sources) {
  const auto table = std::make_unique<Table>();
  table->to = number_at(to);
  table->count = kCount;
  table->factor = 0.25;
  table->sources = static_cast<std::uint32_t>(sources.size());
  std::uint64_t all = table->to;
  for (std::size_t i = 0; i < sources.size(); ++i) all |= table->from[i] = number_at(sources[i]);
  table->unit = all % kUnitBytes == 0 ? kUnitBytes / kind.size() : 1;
  run_kernel(capability, "hora_sum_" + kind.name, *table, sum_blocks(kCount, table->unit));
}

TEST(UnalignedKernels, SumAsTheCpuDoes) {
  constexpr std::size_t kSources = 3;
  std::mt19937_64 random(3);
  const auto host = make_host_stream();
  for (const int capability : kCapabilities) {
    for (const auto& kind : kFloatFormats) {
      if (kind.dtype == DType::float64) continue;
      for (std::size_t shift = 0; shift < kShifts; ++shift) {
        std::array<AlignedMemory, kSources> aligned;
        std::array<AlignedMemory, kSources> shifted;
        std::vector<const void*> of_host;
        std::vector<const void*> of_gpu;
        for (std::size_t i = 0; i < kSources; ++i) {
          const std::size_t offset = shift * (i + 1) % kShifts;
          aligned[i] = numbers(kind, random);
          shifted[i].put(offset, aligned[i], kCount * kind.size());
          of_host.push_back(aligned[i].at());
          of_gpu.push_back(shifted[i].at(offset));
        }
        AlignedMemory results;
        host->sum(results.at(), of_host, kCount, kind.dtype, 0.25);
        AlignedMemory expected;
        expected.put(shift, results, kCount * kind.size());
        AlignedMemory made;
        (random() % 2 == 0 ? run_sum<SmallSum> : run_sum<LargeSum>)(capability, kind, made.at(shift), of_gpu);
        ASSERT_TRUE(made == expected) << kind.name << ", " << capability << ": at " << shift;
      }
    }
  }
}

template <typename Table>
void convert_blocks(int capability, const std::string& name, const BlockMove& move, bool from_source,
                    double factor, std::uint32_t* flag) {
  const auto table = std::make_unique<Table>();
  table->flag = flag;
  table->factor = factor;
  const Filled filled = fill(*table, {&move, 1}, from_source, 1);
  run_kernel(capability, name, *table, filled.tiles);
}

/// Elements at this offset from an aligned address, as blocks and back.
void expect_blocks(int capability, DType format, const FloatFormat& kind, std::size_t shift,
                   std::mt19937_64& random) {
  constexpr std::size_t kElements = 64;  // of whole blocks
  const std::string suffix = format == DType::float8_e4m3fn ? "e4m3" : "e5m2";
  const double factor = shift % 3 == 0 ? 1.0 : 1.0 / 3;
  const auto in = [](AlignedMemory& memory) { return BlockFloats{memory.at(), memory.at(kElements)}; };
  AlignedMemory source = numbers_of_all_sorts(kind, random);
  AlignedMemory blocks;
  AlignedMemory back;
  const BlockMove on_host{in(blocks), source.at(), back.at(), kCount};
  const auto host = make_host_stream();
  const auto odd = host->make_flag();
  host->quantize({&on_host, 1}, {format, kind.dtype, factor});
  host->dequantize({&on_host, 1}, {format, kind.dtype, 1.0, odd.get()});
  AlignedMemory expected;
  expected.put(shift, back, kCount * kind.size());

  AlignedMemory shifted;
  shifted.put(shift, source, kCount * kind.size());
  AlignedMemory made;
  AlignedMemory made_back;
  const BlockMove on_gpu{in(made), shifted.at(shift), made_back.at(shift), kCount};
  const auto convert = random() % 2 == 0 ? convert_blocks<SmallBlocks> : convert_blocks<LargeBlocks>;
  convert(capability, "hora_quantize_" + suffix + "_" + kind.name, on_gpu, true, factor, nullptr);
  std::uint32_t flag = 0;
  convert(capability, "hora_dequantize_" + kind.name + "_" + suffix, on_gpu, false, 1.0, &flag);
  ASSERT_TRUE(made == blocks) << kind.name << ", " << suffix << ": at " << shift;
  ASSERT_TRUE(made_back == expected) << kind.name << ", " << suffix << ": at " << shift;
  ASSERT_EQ(flag, *odd);
}

TEST(UnalignedKernels, MakeBlocksAndElementsOfThemAsTheCpuDoes) {
  std::mt19937_64 random(4);
  for (const int capability : kCapabilities) {
    for (const DType format : {DType::float8_e4m3fn, DType::float8_e5m2}) {
      for (const auto& kind : kFloatFormats) {
        for (std::size_t shift = 0; shift < kShifts; ++shift)
          expect_blocks(capability, format, kind, shift, random);
      }
    }
  }
}

}  // namespace
}  // namespace hora::cuda
