// SPDX-License-Identifier: Apache-2.0
#include "core/device/neutral.h"

#include "core/device/kernels.h"
#include "test/support/elements.h"

#include <gtest/gtest.h>

#include <array>

namespace hora {
namespace {

TEST(FillNeutral, ChangesNothingInAnyReductionOfAnyDtype) {
  for (const DType dtype : reduced_dtypes()) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::bit_and, ReduceOp::bit_or,
          ReduceOp::bit_xor, ReduceOp::logical_and, ReduceOp::logical_or}) {
      if (is_bitwise(op) && is_float(dtype)) continue;
      std::array<std::byte, 64> neutral{};
      std::array<std::byte, 64> values{};
      const NumberKind kind = kind_of(dtype);
      const bool has_sign = kind != NumberKind::unsigned_integer && kind != NumberKind::boolean;
      for (std::size_t i = 0; i < 3; ++i)
        set_element(values.data(), dtype, i,
                    dtype == DType::boolean || is_logical(op) ? static_cast<int>(i % 2)
                                                              : static_cast<int>(i) - (has_sign ? 1 : 0));
      fill_neutral(neutral.data(), dtype, op, 3);
      std::array<std::byte, 64> result{};
      const std::array<const void*, 2> inputs{values.data(), neutral.data()};
      void* output = result.data();
      kernels::reduce(inputs, {&output, 1}, 3, {dtype, op, 1.0, 1.0, 1});
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(element(result.data(), dtype, i), element(values.data(), dtype, i))
            << name(dtype) << " " << name(op);
    }
  }
}

}  // namespace
}  // namespace hora
