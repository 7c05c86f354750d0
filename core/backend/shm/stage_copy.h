// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace hora {

/// Copies into memory that other cores have just read and will read again. Stores that bypass the caches are twice as
/// fast for that on some CPUs and several times slower on others; so the first copies try both by turns and are timed,
/// and the faster way stays. Each rank finds out for itself: the bytes are the same. *Engine only.*
class StageCopy {
 public:
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  enum Way : std::size_t { ordinary, streaming };
  static void copy_by(Way way, void* to, const void* from, std::size_t bytes);

  std::array<double, 2> seconds_{};  // of the trials, by way
  std::array<double, 2> bytes_{};
  int trials_ = 0;
};

}  // namespace hora
