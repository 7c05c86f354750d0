// SPDX-License-Identifier: Apache-2.0
#include "frameworks/jax/operation_names.h"

namespace hora::jax {

std::string OperationNames::make(const std::string& program, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::int64_t count = ++counts_[{program, name}];
  return count == 1 ? name : name + "#" + std::to_string(count);
}

}  // namespace hora::jax
