// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

namespace hora {

/// One reduction as two, the second over the results of the first: within each host, then across hosts. The
/// results of the first have the reduction's dtype, so a 16-bit sum is rounded twice. A value.
///
/// `prescale` belongs to the first, and `postscale` and `divisor` to the second. Sums of 16-bit floats with
/// |postscale| <= divisor, so all means, are an exception: the first applies all three, in float32, before it
/// rounds. A host's part of a mean is then no larger than the largest element, and cannot overflow.
struct Phases {
  Reduction within;
  Reduction across;

  bool operator==(const Phases&) const = default;
};

[[nodiscard]] Phases phases_of(const Reduction& reduction);

/// Whether that can be done: not with means of integers, whose sums need not fit their dtype.
[[nodiscard]] bool has_phases(const Reduction& reduction);

}  // namespace hora
