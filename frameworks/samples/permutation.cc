// SPDX-License-Identifier: Apache-2.0
#include "frameworks/samples/permutation.h"

#include <algorithm>
#include <cmath>

namespace hora::samples {
namespace {

// Odd numbers, with as many zeros as ones in no order.
constexpr std::uint64_t kFirst = 0xBF58476D1CE4E5B9;
constexpr std::uint64_t kSecond = 0x94D049BB133111EB;
constexpr std::uint64_t kBetween = 0x9E3779B97F4A7C15;  // between two numbers that are mixed

/// A number in which each bit depends on all bits of a value and of the key. Products wrap around.
std::uint64_t mixed(std::uint64_t value, std::uint64_t key) {
  std::uint64_t result = (value + key) * kFirst;
  result = (result ^ (result >> 29)) * kSecond;
  return result ^ (result >> 32);
}

}  // namespace

std::uint64_t mixed_seed(std::span<const std::uint64_t> numbers) {
  std::uint64_t seed = numbers.size();
  for (const std::uint64_t number : numbers) seed = mixed(number, mixed(seed, kBetween));
  return seed >> 1;
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size),
      rows_(std::max<std::uint64_t>(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size))), 1)),
      columns_((size + rows_ - 1) / rows_) {
  for (std::size_t round = 0; round < keys_.size(); ++round)
    keys_[round] = mixed_seed(std::array{seed, epoch, std::uint64_t{round}});
}

std::vector<std::size_t> Permutation::numbers(const Piece& places) const {
  std::vector<std::size_t> numbers;
  for (std::int64_t place = places.first; place < places.last; ++place) {
    std::uint64_t number = mapped(static_cast<std::uint64_t>(place));
    while (number >= size_) number = mapped(number);
    numbers.push_back(number);
  }
  return numbers;
}

std::uint64_t Permutation::mapped(std::uint64_t place) const {
  std::uint64_t row = place / columns_;
  std::uint64_t column = place % columns_;
  for (std::size_t round = 0; round < keys_.size(); round += 2) {
    row = (row + mixed(column, keys_[round]) % rows_) % rows_;
    column = (column + mixed(row, keys_[round + 1]) % columns_) % columns_;
  }
  return row * columns_ + column;
}

}  // namespace hora::samples
