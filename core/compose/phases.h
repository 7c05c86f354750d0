// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

namespace hora {

/// One reduction as two, the second over the results of the first: within each host, then across hosts.
/// Elements have the reduction's dtype in between, so a 16-bit one is rounded once more, for each host. A
/// value.
///
/// `prescale` belongs to the first, `postscale` and `divisor` to the second, but for 16-bit sums that they
/// make smaller (every mean): those are scaled in the first, in float32 before they are rounded. So a host's
/// part is no larger than the elements and cannot overflow where the result does not.
struct Phases {
  Reduction within;
  Reduction across;

  bool operator==(const Phases&) const = default;
};

[[nodiscard]] Phases phases_of(const Reduction& reduction);

/// Whether that can be done: not with means of integers, whose sums need not fit their dtype.
[[nodiscard]] bool has_phases(const Reduction& reduction);

}  // namespace hora
