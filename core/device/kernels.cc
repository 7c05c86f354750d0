// SPDX-License-Identifier: Apache-2.0
#include "core/device/kernels.h"

#include "core/base/half.h"

#include <hora/status.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// Highway compiles this file once for each instruction set and picks one when the program runs. The loops are
// plain C++ that the compiler turns into vector code for the set at hand (this file is built with -O3);
// `ivdep` says that no element depends on another one, which is so also when an output is one of the inputs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/device/kernels.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hora::kernels::HWY_NAMESPACE {

// An element type: how it is stored, what it is computed in, and how to get from one to the other.

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static constexpr bool kIsValue = true;  // stored as it is computed
  static constexpr bool kPairs = true;    // the compiler vectorises load and store of single elements well
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
  static void load(Value* to, const Stored* from, std::size_t count) {
    std::memcpy(to, from, count * sizeof(Stored));
  }
};

namespace hn = hwy::HWY_NAMESPACE;

// Whether this instruction set converts float16 with the right rounding by itself.
constexpr bool kConvertsFloat16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr bool kIsValue = false;
  static constexpr bool kPairs = false;
  static Value load(Stored stored) { return float_from_float16(stored); }
  static Stored store(Value value) { return float16_from(value); }

  static void load(Value* to, const Stored* from, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kConvertsFloat16) {
      const hn::ScalableTag<float> wide;
      const hn::Rebind<hwy::float16_t, decltype(wide)> narrow;
      const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
      for (; i + hn::Lanes(wide) <= count; i += hn::Lanes(wide)) {
        hn::StoreU(hn::PromoteTo(wide, hn::LoadU(narrow, halves + i)), wide, to + i);
      }
    }
    for (; i < count; ++i) to[i] = load(from[i]);
  }

  static void store(Stored* to, const Value* from, std::size_t count) {
    std::size_t i = 0;
    if constexpr (kConvertsFloat16) {
      const hn::ScalableTag<float> wide;
      const hn::Rebind<hwy::float16_t, decltype(wide)> narrow;
      auto* halves = reinterpret_cast<hwy::float16_t*>(to);
      for (; i + hn::Lanes(wide) <= count; i += hn::Lanes(wide)) {
        hn::StoreU(hn::DemoteTo(narrow, hn::LoadU(wide, from + i)), narrow, halves + i);
      }
    }
    for (; i < count; ++i) to[i] = store(from[i]);
  }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr bool kIsValue = false;
  static constexpr bool kPairs = true;
  static Value load(Stored stored) { return float_from_bfloat16(stored); }
  static Stored store(Value value) { return bfloat16_from(value); }
  static void load(Value* to, const Stored* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = load(from[i]);
  }
  static void store(Stored* to, const Value* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = store(from[i]);
  }
};

__extension__ using Int128 = __int128;

/// For averages of integers, whose sums would not fit.
template <typename T>
struct Wide {
  using Stored = T;
  using Value = std::conditional_t<sizeof(T) == sizeof(std::int64_t), Int128, std::int64_t>;
  static constexpr bool kIsValue = false;
  static constexpr bool kPairs = false;
  static void load(Value* to, const Stored* from, std::size_t count) { std::copy_n(from, count, to); }
  static void store(Stored* to, const Value* from, std::size_t count) {
    constexpr Value kMost = (Value{1} << std::numeric_limits<T>::digits) - 1;
    constexpr Value kLeast = std::is_signed_v<T> ? -kMost - 1 : 0;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<Stored>(std::clamp(from[i], kLeast, kMost));
  }
};

/// A value that is not zero is true.
struct Boolean {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static constexpr bool kIsValue = false;
  static constexpr bool kPairs = true;
  static Value load(Stored stored) { return stored != 0 ? 1 : 0; }
  static Stored store(Value value) { return value; }
  static void load(Value* to, const Stored* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = load(from[i]);
  }
};

/// The same of elements of another type: 1 if they are not zero, else 0.
template <typename Element>
struct Truth {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  static constexpr bool kIsValue = false;
  static constexpr bool kPairs = false;
  static void load(Value* to, const Stored* from, std::size_t count) {
    Element::load(to, from, count);
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] != Value{0} ? Value{1} : Value{0};
  }
  static void store(Stored* to, const Value* from, std::size_t count) { Element::store(to, from, count); }
};

// Two values become one. Integers wrap around, so they are added and multiplied without a sign.

template <typename T>
using Unsigned = std::make_unsigned_t<decltype(T{} + 0)>;

struct Sum {
  template <typename T>
  static T of(T a, T b) {
    if constexpr (!std::is_integral_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};

struct Product {
  template <typename T>
  static T of(T a, T b) {
    if constexpr (!std::is_integral_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
};

template <typename T>
bool is_nan(T a) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(a);
  } else {
    return false;
  }
}

// NaN wins, whichever rank has it.
struct Min {
  template <typename T>
  static T of(T a, T b) {
    return a <= b || is_nan(a) ? a : b;
  }
};

struct Max {
  template <typename T>
  static T of(T a, T b) {
    return a >= b || is_nan(a) ? a : b;
  }
};

struct BitAnd {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

/// The range that scaled values keep to.
template <typename T>
struct Range {
  static constexpr T kMost = std::numeric_limits<T>::max();
  static constexpr T kLeast = std::numeric_limits<T>::min();
};

/// Here the sum over all ranks of a job still fits.
template <>
struct Range<Int128> {
  static constexpr Int128 kMost = Int128{1} << 106;
  static constexpr Int128 kLeast = -kMost;
};

template <typename T>
T times(T value, double factor) {
  if constexpr (!std::is_floating_point_v<T>) {
    const double product = static_cast<double>(value) * factor;
    if (!(product < static_cast<double>(Range<T>::kMost))) return Range<T>::kMost;
    if (product <= static_cast<double>(Range<T>::kLeast)) return Range<T>::kLeast;
    return static_cast<T>(product);
  } else {
    return value * static_cast<T>(factor);
  }
}

template <typename T>
T divided(T value, int divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else {
    const auto narrow = static_cast<std::int64_t>(value);
    return static_cast<T>(narrow) == value ? static_cast<T>(narrow / divisor)  // 128 bits are slow to divide
                                           : static_cast<T>(value / divisor);
  }
}

// How many elements are reduced at a time. The sums stay in the first-level cache, and no input is left for
// so long that the CPU forgets to fetch it ahead: 256 is twice as fast as 1,024 with four inputs in memory.
constexpr std::size_t kBlock = 256;

template <typename Element, typename Op>
class Loops {
 public:
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;

  explicit Loops(const Reduction& reduction)
      : reduction_(reduction),
        prescaled_(reduction.prescale != 1.0),
        scaled_(reduction.postscale != 1.0 || reduction.divisor != 1) {}

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count) const {
    if (inputs.size() == 2 && outputs.size() == 2 && !prescaled_) {
      if constexpr (Element::kPairs) {
        if (!scaled_) return pair(inputs, outputs, count, [](Value value) { return value; });
        if constexpr (std::is_floating_point_v<Stored>) return pair_scaled(inputs, outputs, count);
      }
    }
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      block(inputs, outputs, begin, std::min(kBlock, count - begin));
    }
  }

 private:
  void block(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t begin,
             std::size_t length) const {
    alignas(64) std::array<Value, kBlock> sums;
    alignas(64) std::array<Value, kBlock> converted;
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      const Value* values =
          values_of(static_cast<const Stored*>(inputs[rank]) + begin, converted.data(), length);
      if (rank == 0) {
        std::memcpy(sums.data(), values, length * sizeof(Value));
      } else {
        for (std::size_t i = 0; i < length; ++i) sums[i] = Op::of(sums[i], values[i]);
      }
    }
    if (scaled_) scale(sums.data(), length);
    put(outputs, begin, sums.data(), length);
  }

  /// The values to add up: the input itself, if there is nothing to do to it, or `room`.
  const Value* values_of(const Stored* input, Value* room, std::size_t count) const {
    if constexpr (Element::kIsValue) {
      if (!prescaled_) return input;
    }
    Element::load(room, input, count);
    if (prescaled_) {
      for (std::size_t i = 0; i < count; ++i) room[i] = times(room[i], reduction_.prescale);
    }
    return room;
  }

  /// The case that matters most: two ranks, both outputs, without a block in between.
  template <typename Finish>
  static void pair(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
                   const Finish& finish) {
    const auto* a = static_cast<const Stored*>(inputs[0]);
    const auto* b = static_cast<const Stored*>(inputs[1]);
    auto* x = static_cast<Stored*>(outputs[0]);
    auto* y = static_cast<Stored*>(outputs[1]);
#pragma clang loop vectorize(assume_safety)
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      const Stored value = Element::store(finish(Op::of(Element::load(a[i]), Element::load(b[i]))));
      x[i] = value;
      y[i] = value;
    }
  }

  void pair_scaled(std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::size_t count) const {
    const auto postscale = static_cast<Value>(reduction_.postscale);
    const auto divisor = static_cast<Value>(reduction_.divisor);
    if (std::has_single_bit(
            static_cast<unsigned>(reduction_.divisor))) {  // then its inverse is exact, and faster
      pair(inputs, outputs, count,
           [=, inverse = 1 / divisor](Value value) { return value * postscale * inverse; });
    } else {
      pair(inputs, outputs, count, [=](Value value) { return value * postscale / divisor; });
    }
  }

  void scale(Value* sums, std::size_t count) const {
    if (reduction_.postscale != 1.0) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = times(sums[i], reduction_.postscale);
    }
    if (reduction_.divisor != 1) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = divided(sums[i], reduction_.divisor);
    }
  }

  static void put(std::span<void* const> outputs, std::size_t begin, const Value* sums, std::size_t count) {
    if constexpr (std::is_same_v<Stored, Value>) {
      copy_to(outputs, begin, sums, count);
    } else {
      std::array<Stored, kBlock> stored;
      Element::store(stored.data(), sums, count);
      copy_to(outputs, begin, stored.data(), count);
    }
  }

  static void copy_to(std::span<void* const> outputs, std::size_t begin, const Stored* stored,
                      std::size_t count) {
    for (void* output : outputs) {
      std::memcpy(static_cast<Stored*>(output) + begin, stored, count * sizeof(Stored));
    }
  }

  const Reduction& reduction_;
  bool prescaled_;
  bool scaled_;
};

using Inputs = std::span<const void* const>;
using Outputs = std::span<void* const>;

template <typename Element>
void reduce_as(Inputs inputs, Outputs outputs, std::size_t count, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::min: return Loops<Element, Min>(reduction).run(inputs, outputs, count);
    case ReduceOp::max: return Loops<Element, Max>(reduction).run(inputs, outputs, count);
    case ReduceOp::product: return Loops<Element, Product>(reduction).run(inputs, outputs, count);
    case ReduceOp::logical_and: return Loops<Truth<Element>, Min>(reduction).run(inputs, outputs, count);
    case ReduceOp::logical_or: return Loops<Truth<Element>, Max>(reduction).run(inputs, outputs, count);
    default: return Loops<Element, Sum>(reduction).run(inputs, outputs, count);
  }
}

template <typename Element>
void reduce_bits(Inputs inputs, Outputs outputs, std::size_t count, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::bit_and: return Loops<Element, BitAnd>(reduction).run(inputs, outputs, count);
    case ReduceOp::bit_or: return Loops<Element, BitOr>(reduction).run(inputs, outputs, count);
    default: return Loops<Element, BitXor>(reduction).run(inputs, outputs, count);
  }
}

template <typename T>
void reduce_integers(Inputs inputs, Outputs outputs, std::size_t count, const Reduction& reduction) {
  const bool average = reduction.op == ReduceOp::sum && reduction.divisor != 1;
  if (average) return Loops<Wide<T>, Sum>(reduction).run(inputs, outputs, count);
  if (is_bitwise(reduction.op))
    return reduce_bits<Plain<std::make_unsigned_t<T>>>(inputs, outputs, count, reduction);
  reduce_as<Plain<T>>(inputs, outputs, count, reduction);
}

void reduce_bools(Inputs inputs, Outputs outputs, std::size_t count, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::bit_xor: return Loops<Boolean, BitXor>(reduction).run(inputs, outputs, count);
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bit_or:
    case ReduceOp::logical_or: return Loops<Boolean, Max>(reduction).run(inputs, outputs, count);
    default: return Loops<Boolean, Min>(reduction).run(inputs, outputs, count);
  }
}

void reduce(Inputs inputs, Outputs outputs, std::size_t count, const Reduction& reduction) {
  switch (reduction.dtype) {
    case DType::uint8: return reduce_integers<std::uint8_t>(inputs, outputs, count, reduction);
    case DType::int8: return reduce_integers<std::int8_t>(inputs, outputs, count, reduction);
    case DType::int16: return reduce_integers<std::int16_t>(inputs, outputs, count, reduction);
    case DType::int32: return reduce_integers<std::int32_t>(inputs, outputs, count, reduction);
    case DType::int64: return reduce_integers<std::int64_t>(inputs, outputs, count, reduction);
    case DType::uint16: return reduce_integers<std::uint16_t>(inputs, outputs, count, reduction);
    case DType::uint32: return reduce_integers<std::uint32_t>(inputs, outputs, count, reduction);
    case DType::uint64: return reduce_integers<std::uint64_t>(inputs, outputs, count, reduction);
    case DType::float16: return reduce_as<Float16>(inputs, outputs, count, reduction);
    case DType::bfloat16: return reduce_as<Bfloat16>(inputs, outputs, count, reduction);
    case DType::float32: return reduce_as<Plain<float>>(inputs, outputs, count, reduction);
    case DType::float64: return reduce_as<Plain<double>>(inputs, outputs, count, reduction);
    case DType::boolean: return reduce_bools(inputs, outputs, count, reduction);
    default: break;  // hora::kernels::reduce refuses those
  }
}

template <typename To, typename From>
void convert(void* to, const void* from, std::size_t count) {
  auto* __restrict target = static_cast<typename To::Stored*>(to);
  const auto* __restrict source = static_cast<const typename From::Stored*>(from);
  constexpr bool kToFloat32 = std::is_same_v<typename To::Stored, float>;
  constexpr bool kFromFloat32 = std::is_same_v<typename From::Stored, float>;
  if constexpr (kToFloat32 && std::is_same_v<typename From::Value, float>) {
    From::load(target, source, count);
  } else if constexpr (kFromFloat32 && std::is_same_v<typename To::Value, float>) {
    To::store(target, source, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      target[i] = To::store(static_cast<typename To::Value>(From::load(source[i])));
    }
  }
}

template <typename From>
void cast_from(void* to, DType to_dtype, const void* from, std::size_t count) {
  switch (to_dtype) {
    case DType::float16: return convert<Float16, From>(to, from, count);
    case DType::bfloat16: return convert<Bfloat16, From>(to, from, count);
    case DType::float64: return convert<Plain<double>, From>(to, from, count);
    default: return convert<Plain<float>, From>(to, from, count);
  }
}

void cast(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count) {
  switch (from_dtype) {
    case DType::float16: return cast_from<Float16>(to, to_dtype, from, count);
    case DType::bfloat16: return cast_from<Bfloat16>(to, to_dtype, from, count);
    case DType::float64: return cast_from<Plain<double>>(to, to_dtype, from, count);
    default: return cast_from<Plain<float>>(to, to_dtype, from, count);
  }
}

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> tag;
  const std::size_t step = hn::Lanes(tag);
  auto* target = static_cast<std::uint8_t*>(to);
  const auto* source = static_cast<const std::uint8_t*>(from);
  // Streaming stores need an aligned target: ordinary ones for the bytes that are left at both ends.
  std::size_t i = std::min(bytes, (step - reinterpret_cast<std::uintptr_t>(target) % step) % step);
  std::memcpy(target, source, i);
  for (; i + step <= bytes; i += step) hn::Stream(hn::LoadU(tag, source + i), tag, target + i);
  std::memcpy(target + i, source + i, bytes - i);
  hwy::FlushStream();
}

const char* target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace hora::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hora::kernels {

HWY_EXPORT(reduce);
HWY_EXPORT(cast);
HWY_EXPORT(copy_streaming);
HWY_EXPORT(target);

void reduce(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
            const Reduction& reduction) {
  if (is_complex(reduction.dtype) || is_float8(reduction.dtype))
    throw Error(Code::internal, "a dtype whose elements are no numbers to reduce");
  HWY_DYNAMIC_DISPATCH(reduce)(inputs, outputs, count, reduction);
}

void cast(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count) {
  if (!is_float(to_dtype) || !is_float(from_dtype)) throw Error(Code::internal, "only floats are cast");
  if (to_dtype == from_dtype) {
    if (count > 0) std::memcpy(to, from, count * size_of(to_dtype));
    return;
  }
  HWY_DYNAMIC_DISPATCH(cast)(to, to_dtype, from, from_dtype, count);
}

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_streaming)(to, from, bytes);
}

const char* target() { return HWY_DYNAMIC_DISPATCH(target)(); }

}  // namespace hora::kernels
#endif
