// SPDX-License-Identifier: Apache-2.0
#include "core/join/differences.h"

#include "core/comm/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace hora {
namespace {

constexpr std::size_t kMostDescribed = 5;  // differences of one rank; the others are only counted

/// How a list differs from that of the first rank. Both are sorted.
std::string difference(const std::vector<Item>& first, const std::vector<Item>& other, int first_rank) {
  std::vector<std::string> found;
  auto mine = first.begin();
  auto theirs = other.begin();
  while (mine != first.end() || theirs != other.end()) {
    if (theirs == other.end() || (mine != first.end() && mine->name < theirs->name)) {
      found.push_back(fmt::format("'{}' is missing", (mine++)->name));
    } else if (mine == first.end() || theirs->name < mine->name) {
      found.push_back(fmt::format("'{}' is not on rank {}", (theirs++)->name, first_rank));
    } else {
      if (mine->what != theirs->what) {
        found.push_back(
            fmt::format("'{}' is {}, and {} on rank {}", mine->name, theirs->what, mine->what, first_rank));
      }
      ++mine;
      ++theirs;
    }
  }
  if (found.size() <= kMostDescribed) return fmt::format("{}", fmt::join(found, "; "));
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(kMostDescribed);
  return fmt::format("{}; and {} more", fmt::join(found.begin(), end, "; "), found.size() - kMostDescribed);
}

}  // namespace

std::vector<std::string> describe_differences(std::vector<std::vector<Item>> lists,
                                              const std::vector<int>& ranks) {
  for (auto& list : lists) {
    std::sort(list.begin(), list.end(),
              [](const Item& one, const Item& other) { return one.name < other.name; });
  }
  std::map<std::string, std::vector<int>> alike;
  for (std::size_t i = 1; i < lists.size(); ++i)
    alike[difference(lists.front(), lists[i], ranks.front())].push_back(ranks[i]);
  alike.erase("");
  std::vector<std::string> lines;
  lines.reserve(alike.size());
  for (const auto& [how, those] : alike) lines.push_back(fmt::format("{}: {}", describe_ranks(those), how));
  return lines;
}

}  // namespace hora
