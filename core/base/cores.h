// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hora {

/// The CPU cores that a process may run on, as bits, up to the 1,024th.
using CoreSet = std::array<std::uint64_t, 16>;

/// Those of the calling thread; or of another process's first one, none if there is no such process.
[[nodiscard]] CoreSet usable_cores(int pid = 0);
[[nodiscard]] int count_cores(const CoreSet& cores);

/// How many cores' worth of time this process's control group may use, rounded down but at least 1; or a very
/// large number if there is no limit.
[[nodiscard]] int core_quota();
/// The same from the contents of a `cpu.max` file, such as "150000 100000" or "max 100000".
[[nodiscard]] int core_quota_in(std::string_view cpu_max);

}  // namespace hora
