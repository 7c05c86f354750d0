// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace hora::samples {

/// Samples that go through the model together: the places from `first` to `last` - 1 in the order of an
/// epoch. A value.
struct Piece {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] std::int64_t size() const { return last - first; }
  bool operator==(const Piece&) const = default;
};

/// The samples of a step that a rank gets, in pieces of `microbatch` samples. Only the last piece of the step
/// may have fewer. The pieces are the same for any number of ranks, and those of a rank are neighbours. No
/// rank has two more than another. With more ranks than pieces some ranks get none.
[[nodiscard]] std::vector<Piece> microbatches(const Piece& step, std::int64_t microbatch, int rank,
                                              int ranks);

/// The samples of a step that a rank gets, in one piece. No rank gets two more than another.
[[nodiscard]] Piece share(const Piece& step, int rank, int ranks);

}  // namespace hora::samples
