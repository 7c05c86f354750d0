// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace hora::bench {

enum class Act { allreduce, first, fingerprint };
enum class Level { plane, hosts, runtime };

/// The parameters of a measurement. A value.
struct Options {
  Act act = Act::allreduce;            ///< the first argument
  std::size_t begin = 8;               ///< -b, bytes
  std::size_t end = 256 << 20;         ///< -e, bytes
  std::size_t factor = 2;              ///< -f, from one size to the next
  int iterations = 0;                  ///< -n, in each block; 0: as many as the size allows
  int warmup = 2;                      ///< -w, iterations before each block
  int blocks = 5;                      ///< --blocks, in which the contenders take turns
  DType dtype = DType::float32;        ///< --dtype
  ReduceOp op = ReduceOp::sum;         ///< --op
  bool arena = true;                   ///< --memory arena, or both
  bool private_memory = true;          ///< --memory private, or both
  Level level = Level::plane;          ///< --level
  bool mpi = false;                    ///< --peer mpi
  std::vector<std::string> only;       ///< --only, names of contenders; empty: all
  std::vector<std::size_t> list;       ///< --list, elements of each tensor, in the order of the model
  std::chrono::milliseconds pause{0};  ///< --pause, in which every rank sleeps before each call
  std::string json;                    ///< --json, a file
};

/// Whether this contender is to take part.
[[nodiscard]] bool is_wanted(const Options& options, const std::string& contender);

/// Throws Error(invalid_argument) that names the argument.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);
[[nodiscard]] const char* usage();

}  // namespace hora::bench
