// SPDX-License-Identifier: Apache-2.0
#include "core/comm/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hora {

std::string describe(const Member& member) {
  return fmt::format("rank {} (pid {} on {})", member.rank, member.pid, member.host);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() == 2) return fmt::format("ranks {} and {}", ranks.front(), ranks.back());
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(first == last ? fmt::to_string(ranks[first])
                                 : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  return fmt::format("ranks {}", fmt::join(runs, ", "));
}

}  // namespace hora
