// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora::hrun {

/// The features that this build of Hora has and those that this machine offers it, for people: several lines.
[[nodiscard]] std::string build_report();

}  // namespace hora::hrun
