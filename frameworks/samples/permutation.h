// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/samples/pieces.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hora::samples {

/// A seed of 63 bits that depends on all of these numbers, the same in every process.
[[nodiscard]] std::uint64_t mixed_seed(std::span<const std::uint64_t> numbers);

/// A random order of the numbers from 0 to size - 1, the same for the same seed and epoch. Any part of it is
/// computed without the rest. It takes no memory, however many numbers there are.
///
/// It is a Feistel network. A number is a place in a table of `rows` * `columns` >= size. Each round adds to
/// one coordinate a function of the other, so the table's places change one to one. A place beyond `size` is
/// mapped again until it is not beyond; so this is one to one, too.
class Permutation {
 public:
  /// `size`: 1 or more.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  /// The numbers at these places.
  [[nodiscard]] std::vector<std::size_t> numbers(const Piece& places) const;

 private:
  [[nodiscard]] std::uint64_t mapped(std::uint64_t place) const;

  std::uint64_t size_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::array<std::uint64_t, 8> keys_{};  // one for each round
};

}  // namespace hora::samples
