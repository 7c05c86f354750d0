// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/kernels.h"

#include "core/device/float8.h"

#include <gpu_instructions.h>  // those of ptx/, or the tests'

// Compiled without contraction and without flushing subnormals, so that results have the bits that they have
// on a CPU (core/device/kernels.cc). NaN: the hardware's conversions make one of their own of every NaN, but
// the sign shall be that of the source, and so shall the payload, but in float16. So what has a NaN in it is
// done again, element by element.

namespace hora::cuda {
namespace {

// Blocks of a multiprocessor: with four of them a thread has 64 registers, and 64 KiB of loads are under way.
constexpr int kBlocks = 4;
constexpr int kFewerBlocks = 3;  // where 64 registers are not enough

// Element types: how they are stored, and the way to and from float32 or float64. `fast` is right for all but
// NaN, `exact` for all.

struct Float32 {
  using Stored = std::uint32_t;
  static __device__ float widen(Stored bits) { return __uint_as_float(bits); }
  static __device__ Stored fast(float value) { return __float_as_uint(value); }
  static __device__ Stored exact(float value) { return __float_as_uint(value); }
  static __device__ bool finite(std::uint32_t word) { return (word & 0x7F800000U) != 0x7F800000U; }
};

struct Float16 {
  using Stored = std::uint16_t;
  static __device__ float widen(Stored bits) { return widen_f16(bits); }
  static __device__ float widen_nan(Stored bits) {
    return __uint_as_float((bits & 0x8000U) << 16 | 0x7FC00000U | (bits & 0x3FFU) << 13);
  }
  static __device__ Stored fast(float value) { return narrow_f16(value); }
  static __device__ std::uint32_t pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
    return narrow_f16_pair(low, high);
#else
    return fast(low) | static_cast<std::uint32_t>(fast(high)) << 16;
#endif
  }
  static __device__ Stored exact(float value) {
    if (value == value) return fast(value);
    return static_cast<Stored>((__float_as_uint(value) >> 16 & 0x8000U) | 0x7E00U);
  }
  static __device__ bool finite(std::uint32_t word) {
    return (word & 0x7C00U) != 0x7C00U && (word & 0x7C000000U) != 0x7C000000U;
  }
  static __device__ bool finite_one(Stored bits) { return (bits & 0x7C00U) != 0x7C00U; }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  static __device__ float widen(Stored bits) {
    return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  }
  static __device__ float widen_nan(Stored bits) { return widen(bits); }
  static __device__ Stored fast(float value) {
#if __CUDA_ARCH__ >= 800
    return narrow_bf16(value);
#else
    const std::uint32_t bits = __float_as_uint(value);
    return static_cast<Stored>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
#endif
  }
  static __device__ std::uint32_t pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
    return narrow_bf16_pair(low, high);
#else
    return fast(low) | static_cast<std::uint32_t>(fast(high)) << 16;
#endif
  }
  static __device__ Stored exact(float value) {
    if (value == value) return fast(value);
    return static_cast<Stored>(__float_as_uint(value) >> 16 | 0x40U);
  }
  static __device__ bool finite(std::uint32_t word) {
    return (word & 0x7F80U) != 0x7F80U && (word & 0x7F800000U) != 0x7F800000U;
  }
  static __device__ bool finite_one(Stored bits) { return (bits & 0x7F80U) != 0x7F80U; }
};

struct Float64 {
  using Stored = std::uint64_t;
};

template <typename T, typename U>
constexpr bool kSame = false;
template <typename T>
constexpr bool kSame<T, T> = true;

template <typename T>
constexpr bool kIsHalf = sizeof(typename T::Stored) == 2;

/// The type in which a pair of types is computed.
template <typename To, typename From>
struct WideOf {
  using Value = float;
};
template <typename From>
struct WideOf<Float64, From> {
  using Value = double;
};
template <typename To>
struct WideOf<To, Float64> {
  using Value = double;
};
template <>
struct WideOf<Float64, Float64> {
  using Value = double;
};

// float32 and float64 to each other, with the sign and the payload of a NaN, which is made quiet.

__device__ double exact_double(float value) {
  if (value == value) return value;
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t high = (bits & 0x80000000U) | 0x7FF80000U | (bits & 0x7FFFFFU) >> 3;
  return __hiloint2double(static_cast<int>(high), static_cast<int>(bits << 29));
}

__device__ float exact_float(double value) {
  if (value == value) return __double2float_rn(value);
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(value));
  const auto sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000U;
  return __uint_as_float(sign | 0x7FC00000U | (static_cast<std::uint32_t>(bits >> 29) & 0x7FFFFFU));
}

__device__ float quiet(float value) { return __uint_as_float(__float_as_uint(value) | 0x400000U); }
__device__ double quiet(double value) {
  return __longlong_as_double(__double_as_longlong(value) | 0x8000000000000LL);
}

// One element, exactly.

template <typename From, typename Wide>
__device__ Wide widen_exactly(typename From::Stored bits) {
  if constexpr (kSame<From, Float64>) {
    return __longlong_as_double(static_cast<long long>(bits));
  } else {
    float value = From::widen(bits);
    if constexpr (kIsHalf<From>) {
      if (value != value) value = From::widen_nan(bits);
    }
    if constexpr (kSame<Wide, double>) {
      return exact_double(value);
    } else {
      return value;
    }
  }
}

template <typename To, typename Wide>
__device__ typename To::Stored narrow_exactly(Wide value) {
  if constexpr (kSame<To, Float64>) {
    return static_cast<std::uint64_t>(__double_as_longlong(value));
  } else if constexpr (kSame<Wide, double>) {
    return To::exact(exact_float(value));
  } else {
    return To::exact(value);
  }
}

__device__ float times(float value, double factor) { return __fmul_rn(value, static_cast<float>(factor)); }
__device__ double times(double value, double factor) { return __dmul_rn(value, factor); }

template <typename To, typename From>
__device__ typename To::Stored convert_exactly(typename From::Stored bits, double factor) {
  using Wide = typename WideOf<To, From>::Value;
  if constexpr (kSame<To, From>) {
    if (factor == 1.0) return bits;
  }
  Wide value = widen_exactly<From, Wide>(bits);
  if (factor != 1.0) value = value == value ? times(value, factor) : quiet(value);
  return narrow_exactly<To, Wide>(value);
}

template <typename T>
__device__ bool finite_element(typename T::Stored bits) {
  if constexpr (kSame<T, Float64>) {
    return (static_cast<std::uint32_t>(bits >> 32) & 0x7FF00000U) != 0x7FF00000U;
  } else if constexpr (kIsHalf<T>) {
    return T::finite_one(bits);
  } else {
    return T::finite(bits);
  }
}

template <typename T, int kWords>
__device__ bool finite_words(const std::uint32_t* words) {
  bool all = true;
  if constexpr (kSame<T, Float64>) {
#pragma unroll
    for (int i = 1; i < kWords; i += 2) all &= (words[i] & 0x7FF00000U) != 0x7FF00000U;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) all &= T::finite(words[i]);
  }
  return all;
}

/// Loads if `there`, else zeroes.
template <int kWords>
__device__ void load_if(bool there, std::uint32_t* words, std::uint64_t address) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = 0;
  if (there) load_words<kWords>(words, address);
}

// An element, wherever it lies.

template <typename Stored>
__device__ Stored load_element(std::uint64_t address) {
  if ((address & (sizeof(Stored) - 1)) == 0) return load_number<Stored>(address);
  std::uint64_t bits = 0;
#pragma unroll 1
  for (unsigned i = 0; i < sizeof(Stored); ++i)
    bits |= static_cast<std::uint64_t>(load_number<std::uint8_t>(address + i)) << 8 * i;
  return static_cast<Stored>(bits);
}

template <typename Stored>
__device__ void store_element(std::uint64_t address, Stored value) {
  if ((address & (sizeof(Stored) - 1)) == 0) {
    store_number(address, value);
    return;
  }
#pragma unroll 1
  for (unsigned i = 0; i < sizeof(Stored); ++i)
    store_number(address + i, static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> 8 * i));
}

/// The values of a unit; true if one of them is NaN.
template <typename From, typename Wide, int kUnit>
__device__ bool widen_unit(Wide* values, const std::uint32_t* words) {
  bool nan = false;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    if constexpr (kSame<From, Float64>) {
      values[i] = __hiloint2double(static_cast<int>(words[2 * i + 1]), static_cast<int>(words[2 * i]));
    } else if constexpr (kIsHalf<From>) {
      values[i] = From::widen(static_cast<std::uint16_t>(words[i / 2] >> 16 * (i % 2)));
    } else {
      values[i] = From::widen(words[i]);
    }
    nan |= values[i] != values[i];
  }
  return nan;
}

template <typename To, typename Wide, int kUnit>
__device__ void narrow_unit(std::uint32_t* words, const Wide* values) {
  if constexpr (kSame<To, Float64>) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      words[2 * i] = static_cast<std::uint32_t>(__double2loint(values[i]));
      words[2 * i + 1] = static_cast<std::uint32_t>(__double2hiint(values[i]));
    }
  } else if constexpr (kIsHalf<To>) {
#pragma unroll
    for (int i = 0; i < kUnit; i += 2)
      words[i / 2] = To::pair(static_cast<float>(values[i]), static_cast<float>(values[i + 1]));
  } else {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) words[i] = To::fast(static_cast<float>(values[i]));
  }
}

/// The part of a move of floats that one thread does (walk.h).
template <typename To, typename From>
struct Mover {
  using Wide = typename WideOf<To, From>::Value;
  static constexpr int kUnit = unit_of(sizeof(typename To::Stored), sizeof(typename From::Stored));
  static constexpr int kToWords = kUnit * sizeof(typename To::Stored) / 4;
  static constexpr int kFromWords = kUnit * sizeof(typename From::Stored) / 4;

  Walk walk;
  std::uint64_t to;
  std::uint64_t from;
  double factor;
  bool looks;        ///< at the results, for a flag
  bool odd = false;  ///< something was infinite or NaN

  __device__ void element(std::uint64_t i) {
    const auto bits = load_element<typename From::Stored>(from + i * sizeof(typename From::Stored));
    const auto result = convert_exactly<To, From>(bits, factor);
    if (looks) odd |= !finite_element<To>(result);
    if (to != 0) store_element(to + i * sizeof(typename To::Stored), result);
  }

  /// True if there is a NaN, and something to be done to it; then `result` is nothing.
  __device__ bool convert(std::uint32_t* result, const std::uint32_t* words) const {
    if constexpr (kSame<To, From>) {
      if (factor == 1.0) {
#pragma unroll
        for (int i = 0; i < kToWords; ++i) result[i] = words[i];
        return false;
      }
    }
    Wide values[kUnit];
    const bool nan = widen_unit<From, Wide, kUnit>(values, words);
    if (factor != 1.0) {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) values[i] = times(values[i], factor);
    }
    narrow_unit<To, Wide, kUnit>(result, values);
    return nan;
  }

  __device__ void units(std::uint64_t u, std::uint64_t end) {
    unsigned done = 0;
    if (walk.access == Access::aligned) {
      done = aligned_units(u, end);
    } else if (walk.access == Access::shifted) {
      done = shifted_units(u, end);
    }
    // The units that are left have a NaN, or are not aligned at all: element by element.
#pragma unroll 1
    for (u += done * kThreads; done < kDepth && u < end; ++done, u += kThreads) {
#pragma unroll 1
      for (unsigned i = 0; i < walk.unit; ++i) element(walk.head + u * walk.unit + i);
    }
  }

  __device__ unsigned aligned_units(std::uint64_t u, std::uint64_t end) {
    std::uint32_t words[kDepth][kFromWords];
    const std::uint64_t base = from + walk.head * sizeof(typename From::Stored) + u * (4 * kFromWords);
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k)
      load_if<kFromWords>(u + k * kThreads < end, words[k], base + k * (kThreads * 4 * kFromWords));
    return finish<kDepth>(u, end, words) ? kDepth : 0;
  }

  __device__ unsigned shifted_units(std::uint64_t u, std::uint64_t end) {
    const std::uint64_t base = from + walk.head * sizeof(typename From::Stored) - walk.shift;
#pragma unroll 1
    for (unsigned k = 0; k < kDepth; ++k, u += kThreads) {
      if (u >= end) return kDepth;
      std::uint32_t words[1][kFromWords];
      std::uint32_t next[kFromWords];
      load_words<kFromWords>(words[0], base + u * (4 * kFromWords));
      load_words<kFromWords>(next, base + (u + 1) * (4 * kFromWords));
      cut_out<kFromWords>(words[0], words[0], next, walk.shift);
      if (!finish<1>(u, end, words)) return k;
    }
    return kDepth;
  }

  /// False if there is a NaN: then nothing has been stored, and the source is what it was.
  template <unsigned kUnits>
  __device__ bool finish(std::uint64_t u, std::uint64_t end,
                         const std::uint32_t (&words)[kUnits][kFromWords]) {
    std::uint32_t results[kUnits][kToWords];
    bool nan = false;
#pragma unroll
    for (unsigned k = 0; k < kUnits; ++k) nan |= convert(results[k], words[k]);
    if (nan) return false;
    const std::uint64_t base = to + walk.head * sizeof(typename To::Stored) + u * (4 * kToWords);
#pragma unroll
    for (unsigned k = 0; k < kUnits; ++k) {
      const bool there = u + k * kThreads < end;
      if (looks) odd |= there && !finite_words<To, kToWords>(results[k]);
      if (there && to != 0) store_words<kToWords>(base + k * (kThreads * 4 * kToWords), results[k]);
    }
    return true;
  }
};

template <typename To, typename From, typename Table>
__device__ void move_tile(const Table& table) {
  const std::uint32_t entry = entry_of(table.first_tile, table.moves, blockIdx.x);
  Mover<To, From> mover;
  mover.to = table.to[entry];
  mover.from = table.from[entry];
  mover.walk = walk_of(mover.to, mover.from, table.count[entry], sizeof(typename To::Stored),
                       sizeof(typename From::Stored));
  mover.factor = table.factor;
  mover.looks = table.flag != nullptr;
  visit_tile(mover.walk, blockIdx.x - table.first_tile[entry], table.tile_units, threadIdx.x, mover);
  if (table.flag == nullptr) return;
  // One store for a block: the word lies in the host's memory.
  if (__syncthreads_or(mover.odd) != 0 && threadIdx.x == 0) *table.flag = 1;
}

/// The part of a move of bytes that one thread does.
struct Copier {
  static constexpr int kWords = 4;
  Walk walk;
  std::uint64_t to;
  std::uint64_t from;

  __device__ void element(std::uint64_t i) const {
    store_number(to + i, load_number<std::uint8_t>(from + i));
  }

  __device__ void units(std::uint64_t u, std::uint64_t end) const {
    const std::uint64_t base = from + walk.head - walk.shift;
    const std::uint64_t target = to + walk.head;
    if (walk.access == Access::aligned) {
      std::uint32_t words[kDepth][kWords];
#pragma unroll
      for (unsigned k = 0; k < kDepth; ++k) {
        if (u + k * kThreads < end) load_words<kWords>(words[k], base + (u + k * kThreads) * kUnitBytes);
      }
#pragma unroll
      for (unsigned k = 0; k < kDepth; ++k) {
        if (u + k * kThreads < end) store_words<kWords>(target + (u + k * kThreads) * kUnitBytes, words[k]);
      }
      return;
    }
#pragma unroll 2
    for (unsigned k = 0; k < kDepth; ++k) {
      if (u + k * kThreads >= end) break;
      std::uint32_t words[kWords];
      std::uint32_t next[kWords];
      load_words<kWords>(words, base + (u + k * kThreads) * kUnitBytes);
      load_words<kWords>(next, base + (u + k * kThreads + 1) * kUnitBytes);
      cut_out<kWords>(words, words, next, walk.shift);
      store_words<kWords>(target + (u + k * kThreads) * kUnitBytes, words);
    }
  }
};

template <typename Table>
__device__ void copy_tile(const Table& table) {
  const std::uint32_t entry = entry_of(table.first_tile, table.moves, blockIdx.x);
  Copier copier;
  copier.to = table.to[entry];
  copier.from = table.from[entry];
  copier.walk = walk_of(copier.to, copier.from, table.count[entry], 1, 1);
  visit_tile(copier.walk, blockIdx.x - table.first_tile[entry], table.tile_units, threadIdx.x, copier);
}

/// The sum of one element.
template <typename T, typename Table>
__device__ void sum_element(const Table& table, std::uint64_t i) {
  using Stored = typename T::Stored;
  float sum = 0;
#pragma unroll 4
  for (std::uint32_t s = 0; s < table.sources; ++s) {
    const float value = widen_exactly<T, float>(load_element<Stored>(table.from[s] + i * sizeof(Stored)));
    sum = s == 0 ? value : __fadd_rn(sum, value);
  }
  if (table.factor != 1.0) sum = times(sum, table.factor);
  store_element<Stored>(table.to + i * sizeof(Stored), T::exact(sum));
}

/// The sums of 16 bytes.
template <typename T, typename Table>
__device__ void sum_unit(const Table& table, std::uint64_t u) {
  constexpr int kUnit = kUnitBytes / sizeof(typename T::Stored);
  float sums[kUnit];
  std::uint32_t words[kDepth][4];
  for (std::uint32_t s = 0; s < table.sources; s += kDepth) {
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k) {
      if (s + k < table.sources) load_words<4>(words[k], table.from[s + k] + u * kUnitBytes);
    }
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k) {
      if (s + k >= table.sources) break;
      float values[kUnit];
      widen_unit<T, float, kUnit>(values, words[k]);
#pragma unroll
      for (int i = 0; i < kUnit; ++i) sums[i] = s + k == 0 ? values[i] : __fadd_rn(sums[i], values[i]);
    }
  }
  if (table.factor != 1.0) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) sums[i] = times(sums[i], table.factor);
  }
  if constexpr (kIsHalf<T>) {
#pragma unroll
    for (int i = 0; i < kUnit; i += 2)
      words[0][i / 2] = T::exact(sums[i]) | static_cast<std::uint32_t>(T::exact(sums[i + 1])) << 16;
  } else {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) words[0][i] = T::exact(sums[i]);
  }
  store_words<4>(table.to + u * kUnitBytes, words[0]);
}

template <typename T, typename Table>
__device__ void sum_tile(const Table& table) {
  const std::uint64_t u = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (table.unit == 1) {
    if (u < table.count) sum_element<T>(table, u);
    return;
  }
  constexpr std::uint32_t kUnit = kUnitBytes / sizeof(typename T::Stored);
  const std::uint64_t units = table.count / kUnit;
  if (u < units) return sum_unit<T>(table, u);
  const std::uint64_t after = units * kUnit + (u - units);  // as many threads as elements are left
  if (after < table.count) sum_element<T>(table, after);
}

// Block-scaled floats. A unit of four elements is a thread's, and eight neighbours have a block. Units of
// blocks are whole; what a tensor lacks of its last one is zeros, which are not stored when blocks become
// elements.

/// Where a unit of four elements of type T lies, and whether it lies there whole and aligned.
template <typename T>
struct Unit {
  using Stored = typename T::Stored;
  static constexpr int kWords = sizeof(Stored);  // of four elements
  static constexpr int kPiece = kWords < 4 ? kWords : 4;

  std::uint64_t address;
  std::uint64_t first;  ///< of its elements
  std::uint64_t count;  ///< of the tensor

  __device__ Unit(std::uint64_t plain, std::uint64_t u, std::uint64_t count)
      : address(plain + u * (4 * sizeof(Stored))), first(4 * u), count(count) {}
  __device__ bool has(int i) const { return first + i < count; }
  __device__ bool whole() const { return first + 4 <= count && (address & (4 * kPiece - 1)) == 0; }

  __device__ void load(std::uint32_t* words) const {
#pragma unroll
    for (int i = 0; i < kWords; i += kPiece) load_words<kPiece>(words + i, address + 4 * i);
  }
  __device__ void store(const std::uint32_t* words) const {
#pragma unroll
    for (int i = 0; i < kWords; i += kPiece) store_words<kPiece>(address + 4 * i, words + i);
  }
};

__device__ float to_float32(float value) { return value; }
__device__ float to_float32(double value) { return __double2float_rn(value); }

/// The four values of a unit, multiplied; those that are not there are 0.
template <typename From>
__device__ void load_unit(float* values, const Unit<From>& unit, double factor) {
  using Wide = typename WideOf<Float32, From>::Value;
  Wide wide[4];
  if (unit.whole()) {
    std::uint32_t words[Unit<From>::kWords];
    unit.load(words);
    widen_unit<From, Wide, 4>(wide, words);
  } else {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      Wide value = 0;
      if (unit.has(i)) {
        using Stored = typename From::Stored;
        value = widen_exactly<From, Wide>(load_element<Stored>(unit.address + i * sizeof(Stored)));
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) wide[k] = i == k ? value : wide[k];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = to_float32(factor != 1.0 ? times(wide[i], factor) : wide[i]);
}

/// The units of a tile, of which each thread has kDepth at most. A value.
struct TileUnits {
  std::uint64_t begin;  ///< of this thread; the next ones follow at distances of kThreads
  std::uint64_t end;

  __device__ TileUnits(std::uint64_t count, std::uint64_t tile, std::uint32_t tile_units) {
    const std::uint64_t first = tile * tile_units;
    const std::uint64_t left = block_walk(count).units - first;
    begin = first + threadIdx.x;
    end = first + (left < tile_units ? left : tile_units);
  }
  __device__ std::uint64_t at(unsigned k) const { return begin + k * kThreads; }
};

/// The words of four elements and the scales of this thread's units; where the tile has ended scales are 0.
__device__ void load_blocks(std::uint32_t (&words)[kDepth], std::uint32_t (&scales)[kDepth],
                            const TileUnits& units, std::uint64_t elements_at, std::uint64_t scales_at) {
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
    const std::uint64_t u = units.at(k);
    load_if<1>(u < units.end, &words[k], elements_at + 4 * u);
    scales[k] = u < units.end ? load_number<std::uint8_t>(scales_at + u / 8) : 0;
  }
}

/// Makes blocks of the values that all threads of the block of threads have.
template <typename Format>
__device__ void store_blocks(const TileUnits& units, const float (&values)[kDepth][4], std::uint64_t elements,
                             std::uint64_t scales) {
  std::uint32_t largest[kDepth];
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
    largest[k] = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t magnitude = float8::finite_magnitude(values[k][i]);
      largest[k] = magnitude > largest[k] ? magnitude : largest[k];
    }
  }
  take_largest_of_eight(largest);
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
    const std::uint64_t u = units.at(k);
    if (u >= units.end) break;
    const std::uint32_t scale = float8::scale_of<Format>(largest[k]);
    const float inverse = float8::inverse_of_scale(scale);
    std::uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= float8::element_of<Format>(__fmul_rn(values[k][i], inverse)) << 8 * i;
    store_words<1>(elements + 4 * u, &word);
    if (u % 8 == 0) store_number(scales + u / 8, static_cast<std::uint8_t>(scale));
  }
}

template <typename Format, typename From, typename Table>
__device__ void quantize_tile(const Table& table) {
  const std::uint32_t entry = entry_of(table.first_tile, table.moves, blockIdx.x);
  const std::uint64_t count = table.count[entry];
  const TileUnits units(count, blockIdx.x - table.first_tile[entry], table.tile_units);
  float values[kDepth][4];
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
    const std::uint64_t u = units.at(k) < units.end ? units.at(k) : count;  // then it has no elements
    load_unit<From>(values[k], Unit<From>(table.plain[entry], u, count), table.factor);
  }
  store_blocks<Format>(units, values, table.elements[entry], table.scales[entry]);
}

template <typename To, typename Format, typename Table>
__device__ void dequantize_tile(const Table& table) {
  using Stored = typename To::Stored;
  const std::uint32_t entry = entry_of(table.first_tile, table.moves, blockIdx.x);
  const std::uint64_t count = table.count[entry];
  const TileUnits units(count, blockIdx.x - table.first_tile[entry], table.tile_units);
  std::uint32_t words[kDepth];
  std::uint32_t scales[kDepth];
  load_blocks(words, scales, units, table.elements[entry], table.scales[entry]);
  bool odd = false;
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
    if (units.at(k) >= units.end) break;
    const Unit<To> unit(table.plain[entry], units.at(k), count);
    Stored results[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = float8::value_of<Format>(words[k] >> 8 * i & 0xFF, float8::twice_scale(scales[k]));
      if constexpr (kSame<To, Float64>) {
        results[i] = narrow_exactly<To, double>(exact_double(value));
      } else {
        results[i] = narrow_exactly<To, float>(value);
      }
      odd |= unit.has(i) && !finite_element<To>(results[i]);
    }
    if (unit.whole()) {
      std::uint32_t stored[Unit<To>::kWords];
#pragma unroll
      for (int w = 0; w < Unit<To>::kWords; ++w) {
        if constexpr (sizeof(Stored) == 2) {
          stored[w] = results[2 * w] | static_cast<std::uint32_t>(results[2 * w + 1]) << 16;
        } else if constexpr (sizeof(Stored) == 4) {
          stored[w] = results[w];
        } else {
          stored[w] = static_cast<std::uint32_t>(results[w / 2] >> 32 * (w % 2));
        }
      }
      unit.store(stored);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (unit.has(i)) store_element<Stored>(unit.address + i * sizeof(Stored), results[i]);
      }
    }
  }
  if (table.flag == nullptr) return;
  if (__syncthreads_or(odd) != 0 && threadIdx.x == 0) *table.flag = 1;
}

template <typename Format, typename Table>
__device__ void block_sum_tile(const Table& table) {
  const TileUnits units(table.count, blockIdx.x, table.tile_units);
  float sums[kDepth][4];
#pragma unroll 1
  for (std::uint32_t s = 0; s < table.sources; ++s) {
    std::uint32_t words[kDepth];
    std::uint32_t scales[kDepth];
    load_blocks(words, scales, units, table.elements[s], table.scales[s]);
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float value =
            float8::value_of<Format>(words[k] >> 8 * i & 0xFF, float8::twice_scale(scales[k]));
        sums[k][i] = s == 0 ? value : __fadd_rn(sums[k][i], value);
      }
    }
  }
#pragma unroll
  for (unsigned k = 0; k < kDepth; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[k][i] = times(sums[k][i], table.factor);
  }
  store_blocks<Format>(units, sums, table.to_elements, table.to_scales);
}

}  // namespace

#define HORA_KERNELS(name, tile, blocks, ...)                              \
  extern "C" __global__ void __launch_bounds__(kThreads, blocks)           \
      name(const __grid_constant__ Parameter<Small##tile> table) {         \
    __VA_ARGS__(table);                                                    \
  }                                                                        \
  extern "C" __global__ void __launch_bounds__(kThreads, blocks)           \
      name##_large(const __grid_constant__ Parameter<Large##tile> table) { \
    __VA_ARGS__(table);                                                    \
  }

HORA_KERNELS(hora_copy, Moves, kBlocks, copy_tile)
HORA_KERNELS(hora_move_f16_f16, Moves, kBlocks, move_tile<Float16, Float16>)
HORA_KERNELS(hora_move_f16_bf16, Moves, kFewerBlocks, move_tile<Float16, Bfloat16>)
HORA_KERNELS(hora_move_f16_f32, Moves, kBlocks, move_tile<Float16, Float32>)
HORA_KERNELS(hora_move_f16_f64, Moves, kBlocks, move_tile<Float16, Float64>)
HORA_KERNELS(hora_move_bf16_f16, Moves, kFewerBlocks, move_tile<Bfloat16, Float16>)
HORA_KERNELS(hora_move_bf16_bf16, Moves, kBlocks, move_tile<Bfloat16, Bfloat16>)
HORA_KERNELS(hora_move_bf16_f32, Moves, kBlocks, move_tile<Bfloat16, Float32>)
HORA_KERNELS(hora_move_bf16_f64, Moves, kBlocks, move_tile<Bfloat16, Float64>)
HORA_KERNELS(hora_move_f32_f16, Moves, kBlocks, move_tile<Float32, Float16>)
HORA_KERNELS(hora_move_f32_bf16, Moves, kBlocks, move_tile<Float32, Bfloat16>)
HORA_KERNELS(hora_move_f32_f32, Moves, kBlocks, move_tile<Float32, Float32>)
HORA_KERNELS(hora_move_f32_f64, Moves, kBlocks, move_tile<Float32, Float64>)
HORA_KERNELS(hora_move_f64_f16, Moves, kBlocks, move_tile<Float64, Float16>)
HORA_KERNELS(hora_move_f64_bf16, Moves, kBlocks, move_tile<Float64, Bfloat16>)
HORA_KERNELS(hora_move_f64_f32, Moves, kBlocks, move_tile<Float64, Float32>)
HORA_KERNELS(hora_move_f64_f64, Moves, kBlocks, move_tile<Float64, Float64>)
HORA_KERNELS(hora_sum_f16, Sum, kBlocks, sum_tile<Float16>)
HORA_KERNELS(hora_sum_bf16, Sum, kBlocks, sum_tile<Bfloat16>)
HORA_KERNELS(hora_sum_f32, Sum, kBlocks, sum_tile<Float32>)

#define HORA_BLOCK_KERNELS(format, Format)                                                                \
  HORA_KERNELS(hora_quantize_##format##_f16, Blocks, kBlocks, quantize_tile<float8::Format, Float16>)     \
  HORA_KERNELS(hora_quantize_##format##_bf16, Blocks, kBlocks, quantize_tile<float8::Format, Bfloat16>)   \
  HORA_KERNELS(hora_quantize_##format##_f32, Blocks, kBlocks, quantize_tile<float8::Format, Float32>)     \
  HORA_KERNELS(hora_quantize_##format##_f64, Blocks, kBlocks, quantize_tile<float8::Format, Float64>)     \
  HORA_KERNELS(hora_dequantize_f16_##format, Blocks, kBlocks, dequantize_tile<Float16, float8::Format>)   \
  HORA_KERNELS(hora_dequantize_bf16_##format, Blocks, kBlocks, dequantize_tile<Bfloat16, float8::Format>) \
  HORA_KERNELS(hora_dequantize_f32_##format, Blocks, kBlocks, dequantize_tile<Float32, float8::Format>)   \
  HORA_KERNELS(hora_dequantize_f64_##format, Blocks, kBlocks, dequantize_tile<Float64, float8::Format>)   \
  HORA_KERNELS(hora_sum_##format, BlockSum, kBlocks, block_sum_tile<float8::Format>)

HORA_BLOCK_KERNELS(e4m3, E4m3)
HORA_BLOCK_KERNELS(e5m2, E5m2)

}  // namespace hora::cuda
