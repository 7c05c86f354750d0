// SPDX-License-Identifier: Apache-2.0
#include "core/comm/tree.h"

#include <algorithm>

namespace hora {
namespace {

/// Where the subtrees of the children of `first` begin, whose own ends before `end`.
std::vector<int> begin_subtrees(int first, int end, int radix) {
  const int below = end - first - 1;
  const int parts = std::min(below, radix);
  std::vector<int> begins;
  int next = first + 1;
  for (int part = 0; part < parts; ++part) {
    begins.push_back(next);
    next += below / parts + (part < below % parts ? 1 : 0);
  }
  return begins;
}

}  // namespace

RankSet TreePosition::below(std::size_t child) const {
  return {children[child], child + 1 < children.size() ? children[child + 1] : end};
}

int TreePosition::child(int rank) const {
  const auto found = std::lower_bound(children.begin(), children.end(), rank);
  return found != children.end() && *found == rank ? static_cast<int>(found - children.begin()) : -1;
}

TreePosition position_in_tree(int rank, int size, int radix) {
  const int most = radix == 0 ? size : radix;
  TreePosition position{0, size, begin_subtrees(0, size, most)};
  for (int at = 0; at != rank;) {
    const auto next = std::prev(std::upper_bound(position.children.begin(), position.children.end(), rank));
    const int child = *next;
    const int end = std::next(next) == position.children.end() ? position.end : *std::next(next);
    position = {at, end, begin_subtrees(child, end, most)};
    at = child;
  }
  return position;
}

}  // namespace hora
