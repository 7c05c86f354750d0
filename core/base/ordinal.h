// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace hora {

/// "1st", "12th", "1042nd"
[[nodiscard]] std::string ordinal(std::uint64_t number);

}  // namespace hora
