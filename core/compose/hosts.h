// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hora {

/// The ranks of a group by host, and the place of this rank among them. Every rank is on one host. A value.
struct Hosts {
  std::vector<std::vector<int>> ranks;  ///< by host: its ranks, in the order in which it counts them
  std::size_t own = 0;                  ///< this rank's host
  std::size_t place = 0;                ///< and its place there

  [[nodiscard]] const std::vector<int>& here() const { return ranks[own]; }
  /// The host of a rank, and its place there.
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(int rank) const;
  /// How many ranks every host has at least.
  [[nodiscard]] std::size_t least() const;
  /// Whether the ranks of each host follow one another, and the hosts, too.
  [[nodiscard]] bool in_rank_order() const;

  bool operator==(const Hosts&) const = default;
};

/// The same as `rank` sees it. `ranks` has it.
[[nodiscard]] Hosts hosts_of(std::vector<std::vector<int>> ranks, int rank);

/// How some of these ranks, whose ranks in their group are their indices in `members`, are spread over hosts:
/// those that have one, by the first of their members.
[[nodiscard]] std::vector<std::vector<int>> spread(const Hosts& hosts, std::span<const int> members);

}  // namespace hora
