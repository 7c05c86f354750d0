// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace hora {

// 16-bit floats to float32 and back, in integer and float32 arithmetic without branches. So loops over them
// become vector code for whatever CPU they are compiled for. To 16 bits rounds to nearest, ties to even; a
// number that is too large becomes infinite; NaN stays NaN. The other way is exact.

inline float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bfloat16_from(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40;  // quiet, so that its lower half does not matter
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded);
}

inline float float_from_float16(std::uint16_t bits) {
  // Exponent and fraction moved to float32's places make a number that is 2^112 too small, subnormal or not.
  const auto magnitude = std::bit_cast<float>((bits & 0x7FFFU) << 13) * 0x1p112F;
  const std::uint32_t infinite = (bits & 0x7C00U) == 0x7C00U ? 0x7F800000U : 0U;
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | infinite | sign);
}

inline std::uint16_t float16_from(float value) {
  constexpr std::uint32_t kInfinite = 0x7F800000;
  constexpr std::uint32_t kTooLarge = 0x477FF000;        // 65520: rounds to 65536
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  // Normal: round off 13 bits of the fraction and correct the exponent's bias by 112.
  const std::uint32_t normal = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - (112U << 23)) >> 13;
  // Subnormal: beside 0.5 the last place of a float32 is 2^-24, that of a float16; the addition rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  std::uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kTooLarge ? 0x7C00 : result;
  result = magnitude > kInfinite ? 0x7E00 : result;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000));
}

}  // namespace hora
