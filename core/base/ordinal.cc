// SPDX-License-Identifier: Apache-2.0
#include "core/base/ordinal.h"

#include <fmt/format.h>

namespace hora {

std::string ordinal(std::uint64_t number) {
  const auto tens = number % 100;
  const bool regular = tens < 11 || tens > 13;
  const auto ones = regular ? number % 10 : 0;
  return fmt::format("{}{}", number, ones == 1 ? "st" : ones == 2 ? "nd" : ones == 3 ? "rd" : "th");
}

}  // namespace hora
