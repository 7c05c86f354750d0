// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hora::hrun {

/// Whether a name or an address means this machine: its own name, a loopback name, or one that leads to an
/// address of this machine. Asks the resolver, which may take its time.
[[nodiscard]] bool is_this_host(const std::string& name);

/// The same of many names at once, which the resolver is asked for in parallel.
[[nodiscard]] std::vector<bool> are_this_host(const std::vector<std::string>& names);

}  // namespace hora::hrun
