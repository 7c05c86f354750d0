// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace hora {

/// Elements that repeat after as many, so that all but the first ones can be copied and compared as bytes:
/// element by element, a test would spend most of its time on that, above all where a sanitizer looks at
/// each.
constexpr std::size_t kPeriod = 100;

/// Element i of `data` becomes `of(i)`, which is `of(i % kPeriod)`.
template <typename Function>
void fill_repeating(void* data, DType dtype, std::size_t count, const Function& of) {
  auto* bytes = static_cast<std::byte*>(data);
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i) set_element(data, dtype, i, of(i));
  for (std::size_t done = kPeriod; done < count; done *= 2)
    std::memcpy(bytes + done * size_of(dtype), data, std::min(done, count - done) * size_of(dtype));
}

/// Whether element i of `data` is `of(i)`, which is `of(i % kPeriod)`.
template <typename Function>
testing::AssertionResult holds_repeating(const void* data, DType dtype, std::size_t count,
                                         const Function& of) {
  const auto* bytes = static_cast<const std::byte*>(data);
  const std::size_t first = std::min(count, kPeriod);
  const bool repeats = first == count || std::memcmp(bytes + first * size_of(dtype), bytes,
                                                     (count - first) * size_of(dtype)) == 0;
  for (std::size_t i = 0; i < (repeats ? first : count); ++i) {
    const double found = element(data, dtype, i);
    if (found != of(i)) {
      return testing::AssertionFailure()
             << "element " << i << " of " << count << " is " << found << ", and should be " << of(i);
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace hora
