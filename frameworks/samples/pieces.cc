// SPDX-License-Identifier: Apache-2.0
#include "frameworks/samples/pieces.h"

#include <algorithm>

namespace hora::samples {

std::vector<Piece> microbatches(const Piece& step, std::int64_t microbatch, int rank, int ranks) {
  const std::int64_t count = (step.size() + microbatch - 1) / microbatch;
  const Piece own = share({0, count}, rank, ranks);
  std::vector<Piece> pieces;
  for (std::int64_t number = own.first; number < own.last; ++number) {
    const std::int64_t first = step.first + number * microbatch;
    pieces.push_back({first, std::min(first + microbatch, step.last)});
  }
  return pieces;
}

Piece share(const Piece& step, int rank, int ranks) {
  const auto end = [&](std::int64_t parts) { return step.last - step.size() * (ranks - parts) / ranks; };
  return {end(rank), end(rank + 1)};
}

}  // namespace hora::samples
