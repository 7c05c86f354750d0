// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hora {

/// The text as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD each.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace hora
