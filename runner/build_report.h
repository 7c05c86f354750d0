// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// What this build of Hora has and what this machine offers it, for people: several lines.
[[nodiscard]] std::string build_report();

}  // namespace hora
