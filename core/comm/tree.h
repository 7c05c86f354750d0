// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/rank_set.h"

#include <vector>

namespace hora {

/// A rank's place in the tree over which ranks agree: ballots go up in it, verdicts come down. Rank 0 is its
/// root. A rank's subtree is itself and those that follow it, cut into equal parts for its children: so ranks
/// of one host, which follow one another as a rule, are in one subtree. In a star all are rank 0's children.
/// A value.
struct TreePosition {
  int parent = 0;             ///< the root's is itself
  int end = 1;                ///< the subtree: from this rank to before that one
  std::vector<int> children;  ///< ascending

  /// The ranks in the subtree of one of the children, by its index.
  [[nodiscard]] RankSet below(std::size_t child) const;
  /// The index of that rank among the children; -1: it is none of them.
  [[nodiscard]] int child(int rank) const;
};

/// `radix`: how many children a rank has, if there are enough; 0: a star. A pure function.
[[nodiscard]] TreePosition position_in_tree(int rank, int size, int radix);

}  // namespace hora
