// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/pace.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hora {
namespace {

constexpr double kShareForItself = 1.0 / 64;
constexpr double kApart = 8;  // for a line through two points to mean anything
constexpr std::size_t kSmallest = std::size_t{4} << 20;
constexpr std::size_t kLargest = std::size_t{64} << 20;

}  // namespace

void Pace::add(std::size_t bytes, Clock::duration time) {
  if (bytes == 0) return;
  const Fastest now{static_cast<double>(bytes), std::chrono::duration<double>(time).count()};
  auto& fastest = by_size_[static_cast<std::size_t>(std::bit_width(bytes)) - 1];
  if (!fastest || now.seconds * fastest->bytes < fastest->seconds * now.bytes) fastest = now;
}

std::optional<std::size_t> Pace::batch_bytes() const {
  const auto known = [](const auto& fastest) { return fastest.has_value(); };
  const auto small = std::find_if(by_size_.begin(), by_size_.end(), known);
  const auto large = std::find_if(by_size_.rbegin(), by_size_.rend(), known);
  if (small == by_size_.end() || (*large)->bytes < kApart * (*small)->bytes) return std::nullopt;
  const double beta = ((*large)->seconds - (*small)->seconds) / ((*large)->bytes - (*small)->bytes);
  if (beta <= 0) return kLargest;  // bytes cost nothing that can be seen
  const double alpha = std::max(0.0, (*small)->seconds - beta * (*small)->bytes);
  const double bytes = std::clamp(alpha / beta / kShareForItself, static_cast<double>(kSmallest),
                                  static_cast<double>(kLargest));
  return std::bit_floor(static_cast<std::size_t>(std::lround(bytes)));
}

}  // namespace hora
