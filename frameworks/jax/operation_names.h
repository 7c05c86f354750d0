// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace hora::jax {

/// Gives the custom calls of a compiled program different names. Those with one name come from a function
/// that is compiled once and called several times. XLA makes them in the same order on all ranks if the
/// programs are the same. Thread-safe.
class OperationNames {
 public:
  /// `name` for the first custom call of this program with this name, then "name#2", "name#3" and so on.
  std::string make(const std::string& program, const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::int64_t> counts_;  // guarded by the mutex
};

}  // namespace hora::jax
