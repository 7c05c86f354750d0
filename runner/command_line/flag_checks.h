// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace hora::hrun {

/// Throws Error(invalid_argument): a flag cannot be served. `why`: a text for the user.
[[noreturn]] inline void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// The check that CLI11 makes of a value, with a text that says what the value must be.
template <typename Number>
std::function<std::string(const std::string&)> number_from(Number least, Number most, const char* unit) {
  return [=](const std::string& text) -> std::string {
    Number value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return fmt::format("must be a number of {} from {} to {}, not '{}'", unit, least, most, text);
  };
}

/// The time of a flag, which is in seconds.
inline std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

}  // namespace hora::hrun
