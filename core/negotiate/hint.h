// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hora {

/// A tensor that some ranks asked for and others did not, as it is known when an error is made of it. A
/// value.
struct OneSided {
  std::string name;
  std::uint64_t step = 0;    ///< as in WaitingTensor; 0: all ranks never had it together
  std::vector<int> asked;    ///< ranks
  std::vector<int> missing;  ///< ranks
};

/// Whether it is a gradient of a DistributedOptimizer's, which a backward() reduces.
[[nodiscard]] bool is_gradient(const std::string& tensor);

/// The mistake that most probably lies behind it, and its remedy, in one line: where the missing ranks have
/// left the job in order; and where they live, and wait for something else. Pure functions.
[[nodiscard]] std::string hint_for_left(const OneSided& tensor);
[[nodiscard]] std::string hint_for_waiting(const OneSided& tensor);

/// The error of a tensor that the missing rank will never submit, with its remedy: the rank has left the job
/// in order, or has removed the tensor's process set. Pure functions.
[[nodiscard]] std::string describe_left(const OneSided& tensor);
[[nodiscard]] std::string describe_removed(const OneSided& tensor);

}  // namespace hora
