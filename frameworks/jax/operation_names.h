// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace hora::jax {

/// Gives the custom calls of a compiled program different names. XLA makes the custom calls of a program in
/// an order that is the same on all ranks. Thread-safe.
class OperationNames {
 public:
  /// `name` for the first custom call of this program with this name, then "name.2", "name.3" and so on.
  std::string make(const std::string& program, const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::int64_t> counts_;  // guarded by the mutex
};

}  // namespace hora::jax
