// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>
#include <vector>

namespace hora {

/// Elements of any dtype, given and read as small whole numbers that every dtype (bool: 0 and 1) holds
/// exactly, so that results can be compared with ==.
class Elements {
 public:
  Elements(DType dtype, std::size_t count) : dtype_(dtype), count_(count), bytes_(count * size_of(dtype)) {}

  void set(std::size_t index, int value);
  [[nodiscard]] double at(std::size_t index) const;

  void* data() { return bytes_.data(); }
  [[nodiscard]] const void* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  bool operator==(const Elements&) const = default;

 private:
  DType dtype_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

/// The dtypes whose elements a `Collective` reduces, in the order of their numbers. Elements have one of
/// them.
[[nodiscard]] std::vector<DType> reduced_dtypes();

/// The same functions for memory that somebody else owns.
void set_element(void* data, DType dtype, std::size_t index, int value);
[[nodiscard]] double element(const void* data, DType dtype, std::size_t index);

}  // namespace hora
