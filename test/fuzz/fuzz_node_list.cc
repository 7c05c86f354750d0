// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of hosts and of tasks: they come from the environment.
#include "core/base/node_list.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& name : hora::expand_node_list(text)) {
      if (name.empty() || name.find_first_of("[],") != std::string::npos) std::abort();
    }
  } catch (const hora::Error&) {
  }
  try {
    for (const int count : hora::expand_task_counts(text)) {
      if (count < 1) std::abort();
    }
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
