// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <compare>
#include <mutex>
#include <set>

namespace hora {

/// The kinds of operations whose work has been given to the GPU. Operations of one kind take the same way,
/// and need the same kernels, connections and buffers there. Thread-safe.
class KindsOnGpu {
 public:
  /// Notes the kind of an operation of this group.
  void add(const Entry& entry, int group);
  /// From now on `add` does not count for this group: its operations will take another way. Before the first
  /// `add`.
  void suspend(int group);
  /// From now on it does.
  void resume(int group);
  /// Throws Error(invalid_argument) unless an operation of this kind has counted: connections, memory and
  /// kernels that it needs cannot be made while a graph waits.
  void check_has(const Entry& entry, int group) const;

 private:
  struct Kind {
    int group = 0;
    Operation operation = Operation::allreduce;
    ReduceOp op = ReduceOp::sum;  ///< sum for an operation that does not reduce
    bool scaled = false;
    DType dtype = DType::float32;
    DType wire = DType::float32;  ///< the dtype for an operation that does not reduce
    int root = 0;                 ///< NCCL connects ranks that send to each other when they first do

    auto operator<=>(const Kind&) const = default;
  };
  static Kind kind_of(const Entry& entry, int group);

  mutable std::mutex mutex_;
  std::set<Kind> kinds_;     // with the mutex; few
  std::set<int> suspended_;  // with the mutex
};

}  // namespace hora
