// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kinds_on_gpu.h"

#include "core/base/operations.h"

#include <fmt/format.h>

#include <string>

namespace hora {

KindsOnGpu::Kind KindsOnGpu::kind_of(const Entry& entry, int group) {
  const bool reduces = traits(entry.operation).reduces;
  const int root = traits(entry.operation).has_root ? entry.root : 0;
  if (!reduces) return {group, entry.operation, ReduceOp::sum, false, entry.dtype, entry.dtype, root};
  const bool scaled = entry.prescale != 1 || entry.postscale != 1;
  return {group, entry.operation, entry.op, scaled, entry.dtype, entry.wire, root};
}

void KindsOnGpu::add(const Entry& entry, int group) {
  const std::lock_guard lock(mutex_);
  if (!suspended_.contains(group)) kinds_.insert(kind_of(entry, group));
}

void KindsOnGpu::suspend(int group) {
  const std::lock_guard lock(mutex_);
  suspended_.insert(group);
}

void KindsOnGpu::resume(int group) {
  const std::lock_guard lock(mutex_);
  suspended_.erase(group);
}

void KindsOnGpu::check_has(const Entry& entry, int group) const {
  const std::lock_guard lock(mutex_);
  if (kinds_.contains(kind_of(entry, group))) return;
  const std::string refused =
      fmt::format("'{}' on {}: it cannot run in a CUDA graph yet, because", entry.name, name(entry.device));
  if (suspended_.contains(group)) {
    throw Error(Code::invalid_argument,
                fmt::format("{} NCCL is still being connected among the new ranks: run steps without a graph "
                            "until it is",
                            refused));
  }
  const OperationTraits& operation = traits(entry.operation);
  throw Error(
      Code::invalid_argument,
      fmt::format("{} no {} of {}{}{} has run on the GPU before, among these ranks and on the way that "
                  "it takes now: run the step once without a graph, as torch.cuda.graph asks for "
                  "anyway",
                  refused, name(entry.operation), name(entry.dtype),
                  operation.reduces ? " with its op, scaling and compression" : "",
                  operation.has_root ? fmt::format(" to or from rank {}", entry.root) : ""));
}

}  // namespace hora
