// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hora::hrun {

/// A core. A value.
struct Core {
  std::vector<int> cpus;  ///< its hardware threads that may be used, by the system's numbers
  int node = 0;           ///< the NUMA node on which it lies
  bool operator==(const Core&) const = default;
};

/// The cores of this machine on which this thread may run, neighbours side by side. Throws
/// Error(unavailable).
[[nodiscard]] std::vector<Core> cores_here();

/// The same of a machine that hwloc describes, "numa:2 core:4 pu:2", of whose CPUs `allowed` may be used;
/// all, if that is empty.
[[nodiscard]] std::vector<Core> cores_of(const std::string& description, const std::vector<int>& allowed);

}  // namespace hora::hrun
