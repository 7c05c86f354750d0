// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>

namespace hora {

/// Work on a device's memory, in order. On the CPU everything is done when the call returns. *Engine only.*
class Stream {
 public:
  virtual ~Stream() = default;

  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* to, std::size_t bytes) = 0;
  /// to[i] = from[i] in another float type, one rounding.
  virtual void cast(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count) = 0;
};

}  // namespace hora
