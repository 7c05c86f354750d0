// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/samples/pieces.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hora::elastic {

using samples::Piece;

/// The rank of a process in a generation of the job. A value.
struct Who {
  std::uint64_t generation = 0;
  int rank = 0;
  int ranks = 1;

  bool operator==(const Who&) const = default;
};

/// A step under way.
struct Step {
  Piece whole;
  std::vector<Piece> share;   // of this rank
  std::vector<Piece> pieces;  // that the program gets: the share, or another rank's piece if that is empty
  Who made_by;
  std::size_t taken = 0;   // how many pieces the program was given
  std::size_t passed = 0;  // for how many it has called backward()
  std::size_t done = 0;    // for how many it has called step()
  bool is_void = false;    // it is to be made again
  bool has_ended = false;

  /// Whether the program has the last piece.
  [[nodiscard]] bool has_last() const { return taken == pieces.size(); }
};

}  // namespace hora::elastic
