// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/tuner.h"

#include <cstddef>
#include <optional>

namespace hora {

/// Copies into memory that other cores have read and will read again. Stores that bypass the caches are twice
/// as fast for that on some CPUs and several times slower on others. Each finds out for itself: the bytes are
/// the same. For one thread at a time.
class FastestCopy {
 public:
  /// `streams`: whether stores bypass the caches; none: the way that turns out to be faster.
  explicit FastestCopy(std::optional<bool> streams = {}) : tuner_(64 * 1024, streams) {}

  /// The memories do not overlap.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  Tuner tuner_;
};

}  // namespace hora
