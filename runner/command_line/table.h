// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hora::hrun {

/// Rows as lines, the columns below each other, two spaces apart. All rows have as many cells. A pure
/// function.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

/// Fit for a cell: the beginning of a long text.
[[nodiscard]] std::string cut(const std::string& text);

}  // namespace hora::hrun
