// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace hora {

/// A kernel as a loop on the host. A value.
struct FakeKernel {
  std::size_t parameter_bytes = 0;
  /// `grid` is the number of thread blocks; `reached(data, bytes)` says whether the GPU reaches that memory.
  /// False: it has been sent where it cannot reach.
  std::function<bool(const void* parameters, unsigned grid,
                     const std::function<bool(const void*, std::size_t)>& reached)>
      run;
};

/// All that the fake driver knows, by name.
const std::map<std::string, FakeKernel>& fake_kernels();

}  // namespace hora
