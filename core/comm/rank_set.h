// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <span>
#include <vector>

namespace hora {

/// Ranks, or places in a group, as runs of numbers that follow one another: so thousands cost as little as
/// one where they lie together. A value.
class RankSet {
 public:
  struct Run {
    int first = 0;
    int end = 0;  ///< the one after the last
    bool operator==(const Run&) const = default;
  };

  RankSet() = default;
  explicit RankSet(int rank) : RankSet(rank, rank + 1) {}
  /// From one to before the other.
  RankSet(int first, int end);
  /// Of ascending ranks.
  explicit RankSet(std::span<const int> ranks);

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool contains(int rank) const;
  [[nodiscard]] bool intersects(const RankSet& other) const;
  /// The lowest; there must be one.
  [[nodiscard]] int front() const { return runs_.front().first; }
  /// Ascending, and never next to each other.
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }
  [[nodiscard]] std::vector<int> list() const;

  void add(const RankSet& other);
  [[nodiscard]] RankSet without(const RankSet& other) const;
  [[nodiscard]] RankSet common(const RankSet& other) const;

  /// Some order, for maps.
  bool operator<(const RankSet& other) const;
  bool operator==(const RankSet& other) const { return runs_ == other.runs_; }

 private:
  /// One that comes after all others, or next to the last.
  void append(Run run);
  /// One that may lie anywhere.
  void insert(Run run);

  std::vector<Run> runs_;
  int size_ = 0;
};

/// To a message and back. A set that has a rank of `size` or more, or is not as `write` writes it, throws
/// Error(internal).
void write(Writer& out, const RankSet& ranks);
[[nodiscard]] RankSet read_rank_set(Reader& in, int size);

}  // namespace hora
