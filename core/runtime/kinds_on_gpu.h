// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <compare>
#include <mutex>
#include <set>

namespace hora {

/// The kinds of operations whose work has been given to the GPU. Operations of one kind need the same
/// kernels, connections and buffers there. Thread-safe.
class KindsOnGpu {
 public:
  /// Notes the kind of an operation of this group.
  void add(const Entry& entry, int group);
  [[nodiscard]] bool has(const Entry& entry, int group) const;

 private:
  struct Kind {
    int group = 0;
    Operation operation = Operation::allreduce;
    ReduceOp op = ReduceOp::sum;  ///< sum for average, too, and for an operation that does not reduce
    DType dtype = DType::float32;
    DType wire = DType::float32;  ///< the dtype for an operation that does not reduce

    auto operator<=>(const Kind&) const = default;
  };
  static Kind kind_of(const Entry& entry, int group);

  mutable std::mutex mutex_;
  std::set<Kind> kinds_;  // with the mutex; few
};

}  // namespace hora
