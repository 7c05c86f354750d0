// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>

namespace hora {

/// Whether a dtype is a float of 16 bits. Its elements are summed as float32.
[[nodiscard]] bool is_half(DType dtype);

/// The dtype in which sums of elements are kept between the steps of a reduction. It is float32 for a float
/// of 16 bits, and otherwise the dtype itself.
[[nodiscard]] DType sum_dtype(DType dtype);

/// The numbers that an element consists of. A `Collective` reduces numbers, and knows no complex elements.
struct Numbers {
  DType dtype;
  std::size_t each;  ///< how many an element has
};

/// Two floats for a complex dtype, and otherwise the element itself.
[[nodiscard]] Numbers numbers_of(DType dtype);

}  // namespace hora
