// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kinds_on_gpu.h"

#include "core/base/operations.h"

namespace hora {

KindsOnGpu::Kind KindsOnGpu::kind_of(const Entry& entry, int group) {
  const bool reduces = traits(entry.operation).reduces;
  const bool sums = !reduces || entry.op == ReduceOp::average;
  return {group, entry.operation, sums ? ReduceOp::sum : entry.op, entry.dtype,
          reduces ? entry.wire : entry.dtype};
}

void KindsOnGpu::add(const Entry& entry, int group) {
  const std::lock_guard lock(mutex_);
  kinds_.insert(kind_of(entry, group));
}

bool KindsOnGpu::has(const Entry& entry, int group) const {
  const std::lock_guard lock(mutex_);
  return kinds_.contains(kind_of(entry, group));
}

}  // namespace hora
