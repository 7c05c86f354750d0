// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hora {

/// A group (a process set, to users) is called by its number. This is that of the world, all ranks of the
/// job.
inline constexpr int kWorld = 0;

/// The ranks of a group, as one of them sees it. Within a group a rank is called by its place, its index
/// among the members. A value.
struct Members {
  int group = kWorld;
  std::vector<int> ranks;  ///< by place, ascending
  int place = 0;           ///< of this rank
};

}  // namespace hora
