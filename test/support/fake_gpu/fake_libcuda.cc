// SPDX-License-Identifier: Apache-2.0
// What makes the fake driver a library of its own, libcuda.so.1: a machine that is there from the beginning,
// with as many GPUs as FAKE_GPUS says (1). FAKE_CUDA_VERSION is what cuDriverGetVersion says.
#include "test/support/fake_gpu/fake_machine.h"

#include <cstdlib>

namespace {

std::vector<hora::FakeGpu> gpus() {
  const char* wanted = std::getenv("FAKE_GPUS");
  return std::vector<hora::FakeGpu>(wanted == nullptr ? 1 : static_cast<std::size_t>(std::atoi(wanted)));
}

[[maybe_unused]] const bool made = [] {
  hora::set_fake_machine(std::make_shared<hora::FakeMachine>(gpus()));
  return true;
}();

}  // namespace
