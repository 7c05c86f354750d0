// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>
#include <string>

namespace hora::bench {

enum class Level { plane, hosts, runtime };

/// What to measure. A value.
struct Options {
  std::size_t begin = 8;         ///< -b, bytes
  std::size_t end = 256 << 20;   ///< -e, bytes
  std::size_t factor = 2;        ///< -f, from one size to the next
  int iterations = 0;            ///< -n, in each block; 0: as many as the size allows
  int warmup = 2;                ///< -w, iterations before each block
  int blocks = 5;                ///< --blocks, in which the contenders take turns
  DType dtype = DType::float32;  ///< --dtype
  ReduceOp op = ReduceOp::sum;   ///< --op
  bool arena = true;             ///< --memory arena, or both
  bool private_memory = true;    ///< --memory private, or both
  Level level = Level::plane;    ///< --level
  bool mpi = false;              ///< --peer mpi
  std::string json;              ///< --json, a file
};

/// Throws Error(invalid_argument) that names the argument.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);
[[nodiscard]] const char* usage();

}  // namespace hora::bench
