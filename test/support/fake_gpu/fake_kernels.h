// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/host_kernels/memory_traffic.h"

#include <cstddef>
#include <functional>
#include <string>

namespace hora {

/// A kernel of kernels.cu, compiled for the host. A value.
struct FakeKernel {
  /// Whether a GPU reaches that memory.
  using Reached = std::function<bool(const void* data, std::size_t bytes)>;

  std::size_t parameter_bytes = 0;
  /// Runs `grid` blocks. False: it has been sent where it cannot reach, or its table does not fit the grid.
  /// `traffic` may be null.
  std::function<bool(const void* parameters, unsigned grid, const Reached& reached, MemoryTraffic* traffic)>
      run;
};

/// As it is compiled for GPUs of this compute capability: 75 is 7.5. Null: there is none of that name.
/// Thread-safe.
const FakeKernel* fake_kernel(int compute_capability, const std::string& name);

}  // namespace hora
