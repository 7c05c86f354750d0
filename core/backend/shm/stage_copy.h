// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/contest.h"

#include <cstddef>
#include <optional>

namespace hora {

/// Copies into memory that other cores have just read and will read again. Stores that bypass the caches are
/// twice as fast for that on some CPUs and several times slower on others. Each rank finds out for itself:
/// the bytes are the same. *Engine only.*
class StageCopy {
 public:
  /// `streams`: whether stores bypass the caches; none: what turns out to be faster.
  explicit StageCopy(std::optional<bool> streams = {}) : contest_(64 * 1024, streams) {}

  void copy(void* to, const void* from, std::size_t bytes);

 private:
  Contest contest_;
};

}  // namespace hora
