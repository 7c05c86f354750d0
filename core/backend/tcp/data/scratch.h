// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/memory.h"

#include <cstddef>
#include <memory>

namespace hora::tcp {

/// Memory that calls use one after the other. It keeps what the largest has needed, up to a limit.
class Scratch {
 public:
  /// `bytes` that are not initialised, until the next call of this.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_ || bytes_ > kKept) {
      memory_.reset();
      memory_ = allocate_aligned(bytes);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::size_t kKept = std::size_t{64} << 20;

  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace hora::tcp
