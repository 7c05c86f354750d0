// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace hora {

/// Block-scaled floats as their definition has them, in the slowest way: by looking at all elements.
class SlowBlockFloats {
 public:
  explicit SlowBlockFloats(DType format) : e5m2_(format == DType::float8_e5m2) {
    for (int element = 0; element < 256; ++element) {
      values_[static_cast<std::size_t>(element)] = defined(element);
      if (std::isfinite(value(element))) largest_ = std::max(largest_, value(element));
    }
  }

  /// Of an element, without the scale.
  [[nodiscard]] double value(int element) const { return values_[static_cast<std::size_t>(element)]; }

  /// The biased exponent of the scale of a block.
  [[nodiscard]] int scale(std::span<const float> block) const {
    int scale = 0;
    for (const float value : block) {
      while (std::isfinite(value) && std::fabs(value) > std::ldexp(largest_, scale - 127)) ++scale;
    }
    return scale;
  }

  /// The element that a value becomes.
  [[nodiscard]] int element(float value, int scale) const {
    if (std::isnan(value) || (std::isinf(value) && !e5m2_)) return 127;
    const int sign = std::signbit(value) ? 128 : 0;
    if (std::isinf(value)) return sign + 124;
    const double wanted = std::ldexp(std::fabs(static_cast<double>(value)), 127 - scale);
    int best = 0;
    for (int other = 1; other < 128 && std::isfinite(this->value(other)); ++other) {
      const double distance = std::fabs(this->value(other) - wanted) - std::fabs(this->value(best) - wanted);
      if (distance < 0 || (distance == 0 && other % 2 == 0)) best = other;
    }
    return sign + best;
  }

  /// The values of elements that are sent once. Those of `values` that make a block are rounded together.
  [[nodiscard]] std::vector<float> rounded(std::span<const float> values) const {
    std::vector<float> results;
    for (std::size_t begin = 0; begin < values.size(); begin += 32) {
      const auto block = values.subspan(begin, std::min<std::size_t>(32, values.size() - begin));
      const int exponent = scale(block);
      for (const float each : block)
        results.push_back(static_cast<float>(std::ldexp(value(element(each, exponent)), exponent - 127)));
    }
    return results;
  }

  /// The result on all ranks of `inputs`, one for each of them. Each is sent, and so is the sum.
  [[nodiscard]] std::vector<float> sum(std::vector<std::vector<float>> inputs, float prescale,
                                       float factor) const {
    std::vector<float> sums(inputs.front().size());
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      for (float& value : inputs[rank]) value *= prescale;
      const std::vector<float> sent = rounded(inputs[rank]);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = rank == 0 ? sent[i] : sums[i] + sent[i];
    }
    for (float& value : sums) value *= factor;
    return rounded(sums);
  }

 private:
  [[nodiscard]] double defined(int element) const {
    const int fractions = e5m2_ ? 4 : 8;
    const int bias = e5m2_ ? 15 : 7;
    const double sign = element >= 128 ? -1 : 1;
    const int exponent = element % 128 / fractions;
    const int fraction = element % fractions;
    if (e5m2_ && exponent == 31)
      return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
    if (!e5m2_ && element % 128 == 127) return std::numeric_limits<double>::quiet_NaN();
    const double digits = static_cast<double>(fraction) / fractions + (exponent == 0 ? 0 : 1);
    return sign * std::ldexp(digits, std::max(exponent, 1) - bias);
  }

  bool e5m2_;
  std::array<double, 256> values_{};
  double largest_ = 0;
};

}  // namespace hora
