// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/alike.h>

#include <string>
#include <vector>

namespace hora {

/// The items that ranks should have alike, and have not. There is a line for all ranks that differ from the
/// first one in the same way. Such a line is "ranks 1-3: 'w' is float32[4,4], and float32[3,4] on rank 0; 'b'
/// is missing". Empty: none. `ranks`: the ranks that the lists are from, ascending; lists in any order.
[[nodiscard]] std::vector<std::string> describe_differences(std::vector<std::vector<Item>> lists,
                                                            const std::vector<int>& ranks);

}  // namespace hora
