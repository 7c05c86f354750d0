// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <locale>
#include <sstream>
#include <string>
#include <string_view>

namespace hora {

/// The pattern with one part in the place of each "{}", as `<<` writes it. The adapter is compiled where
/// programs are, with headers of LibTorch alone, and not every LibTorch brings fmt's.
template <typename... Parts>
std::string text_of(std::string_view pattern, const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::boolalpha;
  const auto put = [&](const auto& part) {
    const std::size_t gap = pattern.find("{}");
    text << pattern.substr(0, gap) << part;
    pattern.remove_prefix(gap + 2);
  };
  (put(parts), ...);
  text << pattern;
  return text.str();
}

/// "2, 3, 4"
template <typename Parts>
std::string joined(const Parts& parts, std::string_view between) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += between;
    text += std::to_string(part);
  }
  return text;
}

}  // namespace hora
