// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hora {

/// The ranks of a group by host, as one of them sees it. Every rank is on one host. A value.
struct Hosts {
  std::vector<std::vector<int>> ranks;  ///< ranks[h]: the ranks of host h, in the order of its collective
  std::size_t own = 0;                  ///< this rank's host: an index in `ranks`
  std::size_t place = 0;                ///< this rank's index in ranks[own]

  [[nodiscard]] const std::vector<int>& here() const { return ranks[own]; }
  /// The host of a rank, and its index there. Throws Error(internal) if it is on none.
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(int rank) const;
  /// The number of ranks of the host that has the fewest.
  [[nodiscard]] std::size_t least() const;
  /// Whether ranks are numbered host by host: `ranks`, read from the beginning, is 0, 1, 2, ...
  [[nodiscard]] bool in_rank_order() const;

  bool operator==(const Hosts&) const = default;
};

/// The value as `rank` sees it. Throws Error(internal) if `rank` is not in `ranks`.
[[nodiscard]] Hosts hosts_of(std::vector<std::vector<int>> ranks, int rank);

/// The hosts of a smaller group of these ranks: for each host that has a member, the indices of its members
/// in `members`. The host of members[0] comes first, and so on.
[[nodiscard]] std::vector<std::vector<int>> spread(const Hosts& hosts, std::span<const int> members);

}  // namespace hora
