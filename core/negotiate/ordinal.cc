// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/ordinal.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace hora {

std::optional<std::string> next_ordinal(std::string_view name) {
  constexpr std::string_view kMark = ".noname.";
  constexpr std::size_t kMostDigits = 18;
  const auto at = name.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + kMark.size());
  if (digits.empty() || digits.size() > kMostDigits || digits.front() == '0') return std::nullopt;
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return fmt::format("{}{}{}", name.substr(0, at), kMark, number + 1);
}

std::string name_of_repeat(const std::string& name) {
  auto next = next_ordinal(name);
  return next ? *std::move(next) : name;
}

}  // namespace hora
