// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/nearness.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora::shm {

/// The groups of ranks of a communicator that are near to each other. At level 0 every rank is alone. Each
/// level puts groups of the level below together, such as ranks that share a cache, then those that share a
/// socket. At the last level all are together. A value.
class Levels {
 public:
  struct Group {
    std::vector<int> members;        ///< places, ascending
    std::vector<std::size_t> parts;  ///< the groups of the level below; for level 1 their places
  };

  /// By what the ranks share, by place. A level at which nobody comes together, or whose groups are all there
  /// is, is left out; so is one that is not known of everybody.
  explicit Levels(std::span<const Nearness> ranks);
  /// As if ranks in a row, so many at each level, were near to each other.
  Levels(int ranks, std::span<const int> sizes);

  /// How many above level 0. 1: no ranks are nearer to each other than to others.
  [[nodiscard]] std::size_t count() const { return levels_.size(); }
  /// All groups of a level, from 1 up, by their first members.
  [[nodiscard]] const std::vector<Group>& groups(std::size_t level) const {
    return levels_[level - 1].groups;
  }
  /// That of the rank at a place.
  [[nodiscard]] const Group& group_of(std::size_t level, int place) const {
    return levels_[level - 1].groups[levels_[level - 1].group_of[static_cast<std::size_t>(place)]];
  }

 private:
  struct Level {
    std::vector<Group> groups;
    std::vector<std::size_t> group_of;  // by place
  };
  using Keys = std::vector<std::vector<std::uint32_t>>;  // by place: what a rank is in, the smallest first

  void build(const Keys& keys);

  std::vector<Level> levels_;
};

}  // namespace hora::shm
