// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>
#include <vector>

namespace hora::bench {

/// The inputs of the ranks and the expected result, made and compared at the speed of memcpy. The elements
/// are small whole numbers that depend on rank, iteration and index; every dtype holds their sum exactly (up
/// to 18 ranks).
class Pattern {
 public:
  Pattern(DType dtype, ReduceOp op, int ranks) : dtype_(dtype), op_(op), ranks_(ranks) {}

  /// Later calls of `write` write the input of `rank` in this iteration.
  void begin(int rank, int iteration);
  /// Elements [first, first + count) of `data`.
  void write(void* data, std::size_t first, std::size_t count) const;
  /// How many elements are not what must come out.
  [[nodiscard]] std::size_t wrong(const void* data, std::size_t count, int iteration);

 private:
  [[nodiscard]] int brought(int rank, int iteration, std::size_t kind) const;
  [[nodiscard]] int result(int iteration, std::size_t kind) const;
  template <typename Value>
  void make_pages(const Value& value);

  DType dtype_;
  ReduceOp op_;
  int ranks_;
  std::vector<std::byte> pages_;
};

}  // namespace hora::bench
