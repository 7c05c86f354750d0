// SPDX-License-Identifier: Apache-2.0
#include "core/compose/phases.h"

#include "core/base/dtypes.h"

#include <cmath>

namespace hora {

Phases phases_of(const Reduction& reduction) {
  Phases phases{reduction, reduction};
  phases.across.prescale = 1.0;
  Reduction& unscaled = is_half(reduction.dtype) && reduction.op == ReduceOp::sum &&
                                std::abs(reduction.postscale) <= reduction.divisor
                            ? phases.across
                            : phases.within;
  unscaled.postscale = 1.0;
  unscaled.divisor = 1;
  return phases;
}

bool has_phases(const Reduction& reduction) { return reduction.divisor == 1 || is_float(reduction.dtype); }

}  // namespace hora
