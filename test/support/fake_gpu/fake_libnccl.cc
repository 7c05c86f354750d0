// SPDX-License-Identifier: Apache-2.0
// The fake NCCL as a library of its own, libnccl.so.2. ncclGetVersion returns FAKE_NCCL_VERSION.
// FAKE_NCCL_POLLS is how often calls are in progress, and with FAKE_NCCL_HOLD_ABORTS=1 aborts do not return.
#include "test/support/fake_gpu/fake_communicator.h"
#include "test/support/fake_gpu/fake_nccl.h"

#include <cstdlib>

namespace {

int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}

[[maybe_unused]] const bool made = [] {
  auto& state = hora::fake_nccl_state();
  state.version = hora::fake_nccl_version();
  state.polls = number("FAKE_NCCL_POLLS", state.polls);
  state.holds_aborts = number("FAKE_NCCL_HOLD_ABORTS", 0) != 0;
  return true;
}();

}  // namespace
