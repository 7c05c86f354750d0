// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

// Elements and scales of block-scaled floats ("MXFP8"). Each kBlockElements floats of 8 bits have one scale,
// a power of two whose biased exponent is stored (E8M0). CPUs and GPUs compile these functions: nvcc compiles
// constexpr functions for the GPU, too. They are float32 and integer arithmetic without branches, so loops
// over them become vector code. NaN and infinite elements do not depend on what a processor makes of them.

namespace hora::float8 {

inline constexpr std::uint32_t kBlockElements = 32;

/// 4 bits of exponent, 3 of fraction, up to 448; no infinity.
struct E4m3 {
  static constexpr std::uint32_t kShift = 20;  ///< from its fraction to float32's
  static constexpr std::uint32_t kBias = 7;
  static constexpr std::uint32_t kTop = 8;  ///< the exponent of the largest element, which is 1.75 * 2^kTop
  static constexpr std::uint32_t kInfinite = 0x7F;  ///< becomes NaN
  static constexpr std::uint32_t kNan = 0x7F;       ///< that and above: NaN
};

/// 5 bits of exponent, 2 of fraction, up to 57344.
struct E5m2 {
  static constexpr std::uint32_t kShift = 21;
  static constexpr std::uint32_t kBias = 15;
  static constexpr std::uint32_t kTop = 15;
  static constexpr std::uint32_t kInfinite = 0x7C;
  static constexpr std::uint32_t kNan = 0x7D;
};

inline constexpr std::uint32_t kFloatInfinite = 0x7F800000;  ///< of float32, as the following
inline constexpr std::uint32_t kFloatNan = 0x7FC00000;
inline constexpr std::uint32_t kFloatSign = 0x80000000;
inline constexpr std::uint32_t kAnyNan = 0x7F;  ///< the element that every NaN becomes, in both formats

/// The bits of a float32's magnitude. Their order is that of the magnitudes.
constexpr std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & ~kFloatSign;
}

/// The same, but 0 if the value is not finite.
constexpr std::uint32_t finite_magnitude(float value) {
  const std::uint32_t magnitude = magnitude_of(value);
  return magnitude < kFloatInfinite ? magnitude : 0;
}

/// The scale of a block with this largest `finite_magnitude`: the smallest for which it fits, at most 247.
template <typename Format>
constexpr std::uint32_t scale_of(std::uint32_t largest) {
  const std::uint32_t exponent = (largest + 0x1FFFFF) >> 23;  // one more, if it is above 1.75 * 2^exponent
  return exponent > Format::kTop ? exponent - Format::kTop : 0;
}

/// The factor of an element before it is rounded.
constexpr float inverse_of_scale(std::uint32_t scale) { return std::bit_cast<float>((254 - scale) << 23); }

/// Twice the scale, which float32 has as a normal number.
constexpr float twice_scale(std::uint32_t scale) { return std::bit_cast<float>((scale + 1) << 23); }

/// The element that is nearest to `scaled`, which is finite, and which `inverse_of_scale` has been multiplied
/// with; ties to even.
template <typename Format>
constexpr std::uint32_t finite_element_of(float scaled) {
  constexpr std::uint32_t kSmallestNormal = (128 - Format::kBias) << 23;
  const std::uint32_t magnitude = magnitude_of(scaled);
  const std::uint32_t own = magnitude & kFloatInfinite;
  const std::uint32_t exponent = own > kSmallestNormal ? own : kSmallestNormal;
  // Beside this number the last place of a float32 is that of the element; the addition rounds.
  const std::uint32_t beside = exponent + (Format::kShift << 23);
  const std::uint32_t sum =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(beside));
  return ((exponent - kSmallestNormal) >> Format::kShift) + (sum - beside) +
         (std::bit_cast<std::uint32_t>(scaled) >> 24 & 0x80);
}

/// The same for any float32.
template <typename Format>
constexpr std::uint32_t element_of(float scaled) {
  const std::uint32_t magnitude = magnitude_of(scaled);
  if (magnitude < kFloatInfinite) return finite_element_of<Format>(scaled);
  const bool stays = magnitude == kFloatInfinite && Format::kInfinite < Format::kNan;
  return stays ? Format::kInfinite | (std::bit_cast<std::uint32_t>(scaled) >> 24 & 0x80) : kAnyNan;
}

/// The value of a finite element, exactly, unless float32 does not have it: above 2^128 it is infinite.
template <typename Format>
constexpr float finite_value_of(std::uint32_t element, float twice_scale) {
  constexpr std::uint32_t kHalf = (126 - Format::kBias) << 23;  // half of the value, then twice the scale:
  constexpr std::uint32_t kSubnormal = kHalf + (1U << 23);      // so no operand is subnormal
  constexpr auto kOffset = std::bit_cast<float>(kSubnormal);
  const std::uint32_t moved = (element & 0x7F) << Format::kShift;
  const float subnormal = std::bit_cast<float>(moved + kSubnormal) - kOffset;
  const float half = moved < (1U << 23) ? subnormal : std::bit_cast<float>(moved + kHalf);
  const std::uint32_t sign = (element & 0x80) << 24;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(half * twice_scale) | sign);
}

/// The same of any element.
template <typename Format>
constexpr float value_of(std::uint32_t element, float twice_scale) {
  const std::uint32_t magnitude = element & 0x7F;
  if (magnitude < Format::kInfinite) return finite_value_of<Format>(element, twice_scale);
  const std::uint32_t bits = magnitude >= Format::kNan ? kFloatNan : kFloatInfinite | (element & 0x80) << 24;
  return std::bit_cast<float>(bits);
}

}  // namespace hora::float8
