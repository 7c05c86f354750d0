// SPDX-License-Identifier: Apache-2.0
// The fake driver as a library of its own, libcuda.so.1: a machine that is there from the beginning, with as
// many GPUs as FAKE_GPUS says (1). cuDriverGetVersion returns FAKE_CUDA_VERSION.
// FAKE_COMPUTE_CAPABILITY is 75 for 7.5 (90). FAKE_CUDA_OWNS is the number
// of the GPU that owns all memory that the driver has not allocated itself.
#include "test/support/fake_gpu/fake_machine.h"

#include <cstdlib>

namespace {

std::vector<hora::FakeGpu> gpus() {
  const char* wanted = std::getenv("FAKE_GPUS");
  hora::FakeGpu gpu;
  if (const char* capability = std::getenv("FAKE_COMPUTE_CAPABILITY"); capability != nullptr)
    gpu.compute_capability = std::atoi(capability);
  return std::vector<hora::FakeGpu>(wanted == nullptr ? 1 : static_cast<std::size_t>(std::atoi(wanted)), gpu);
}

[[maybe_unused]] const bool made = [] {
  auto machine = std::make_shared<hora::FakeMachine>(gpus());
  if (const char* owner = std::getenv("FAKE_CUDA_OWNS"); owner != nullptr)
    machine->rest = hora::FakeBlock{nullptr, 0, std::atoi(owner), false};
  hora::set_fake_machine(std::move(machine));
  return true;
}();

}  // namespace
