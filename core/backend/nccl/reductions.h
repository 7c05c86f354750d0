// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

#include <nccl.h>

namespace hora::nccl {

[[nodiscard]] ncclDataType_t nccl_type(DType dtype);

/// A Reduction as NCCL and one pass carry it out: after * op(before * in). A value.
struct NcclReduction {
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  double before = 1.0;  ///< other than 1 for sums only
  double after = 1.0;   ///< other than 1 for floats only

  bool operator==(const NcclReduction&) const = default;
};

/// `reduction` is one that nccl_reduces() accepts; `ranks` take part.
[[nodiscard]] NcclReduction as_nccl_reduces(const Reduction& reduction, int ranks);

}  // namespace hora::nccl
