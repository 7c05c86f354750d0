// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/partial_sum.h"

#include "core/base/dtypes.h"

#include <cstring>

namespace hora::tcp {

PartialSum::PartialSum(const Reduction& reduction)
    : reduction_(reduction), dtype_(sum_dtype(reduction.dtype)) {}

bool PartialSum::travels(const Reduction& reduction) {
  return reduction.divisor == 1 || is_float(reduction.dtype);
}

void PartialSum::load(std::byte* sums, const SegmentView& view, std::size_t begin, std::size_t end) const {
  view.visit(begin, end, [&](const std::byte* input, std::byte*, std::size_t offset, std::size_t count) {
    std::byte* to = sums + offset * each();
    if (dtype_ == reduction_.dtype) {
      std::memcpy(to, input, count * each());
    } else {
      kernels::cast(to, dtype_, input, reduction_.dtype, count);
    }
  });
  if (reduction_.prescale == 1.0) return;
  const void* input = sums;
  void* output = sums;
  kernels::reduce({&input, 1}, {&output, 1}, end - begin,
                  {dtype_, reduction_.op, reduction_.prescale, 1.0, 1});
}

void PartialSum::add(std::byte* sums, const std::byte* low, const std::byte* high, std::size_t count) const {
  const std::array<const void*, 2> inputs{low, high};
  void* output = sums;
  kernels::reduce(inputs, {&output, 1}, count, {dtype_, reduction_.op, 1.0, 1.0, 1});
}

void PartialSum::store(const SegmentView& view, std::size_t begin, std::size_t end, std::byte* sums) const {
  const Reduction last{dtype_, reduction_.op, 1.0, reduction_.postscale, reduction_.divisor};
  view.visit(begin, end, [&](const std::byte*, std::byte* output, std::size_t offset, std::size_t count) {
    const void* from = sums + offset * each();
    void* to = dtype_ == reduction_.dtype ? output : sums + offset * each();
    kernels::reduce({&from, 1}, {&to, 1}, count, last);
    if (to != output) kernels::cast(output, reduction_.dtype, to, dtype_, count);
  });
}

}  // namespace hora::tcp
