// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// The values of those flags of horovodrun for which hrun has none of its own, by the name of the setting:
/// {"fusion-threshold-mb", "64"}, {"stall-check", "false"}.
using HorovodSettings = std::map<std::string, std::string>;

/// One of those flags. A value.
struct HorovodFlag {
  const char* flag;             ///< "--no-stall-check"
  const char* setting;          ///< "stall-check"
  const char* value = nullptr;  ///< "false"; without one, the next word is it
  [[nodiscard]] bool takes_value() const { return value == nullptr; }
};

/// The flag of that name, if it is one of them.
[[nodiscard]] std::optional<HorovodFlag> find_horovod_flag(const std::string& flag);

/// The variables for ranks that settings stand for: {"HORA_MISSING_WARNING", "0"}. Throws
/// Error(invalid_argument) that names the flag, its value and what it must be.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> variables_of(const HorovodSettings& settings);

/// The settings that mean nothing here, as flags, each with the reason: "--cycle-time-ms (there is no cycle
/// to wait for)". A setting that asks for how things are anyway is not among them.
[[nodiscard]] std::vector<std::string> meaningless_among(const HorovodSettings& settings);

}  // namespace hora::hrun
