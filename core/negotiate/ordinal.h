// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hora {

/// Operations without a name are numbered as ranks issue them: "allreduce.noname.7". An operation that
/// repeats such a one is called like the next: "allreduce.noname.8"; nothing for other names. A pure
/// function.
[[nodiscard]] std::optional<std::string> next_ordinal(std::string_view name);

/// The name under which the same is asked for again: its own, or the next ordinal. A pure function.
[[nodiscard]] std::string name_of_repeat(const std::string& name);

}  // namespace hora
