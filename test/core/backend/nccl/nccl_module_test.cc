// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl_module.h"

#include "test/support/processes.h"
#include "test/support/thrown.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hora::nccl {
namespace {

/// Runs `main` with the fakes in the place of driver and NCCL.
void with_fakes(const std::function<void()>& main) {
  EXPECT_EQ(run_processes(1,
                          [&](int /*rank*/) {
                            EXPECT_NE(::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL), nullptr);
                            EXPECT_NE(::dlopen(FAKE_LIBNCCL, RTLD_NOW | RTLD_LOCAL), nullptr);
                            main();
                          }),
            std::vector<int>{0});
}

TEST(NcclModule, SaysWhereItIs) { EXPECT_TRUE(nccl_module_path().ends_with("/libhora_nccl.so")); }

TEST(NcclModule, OpensGpusAndNccl) {
  with_fakes([] {
    const NcclModule& module = load_nccl();
    EXPECT_EQ(module.gpus(), 1);
    const auto gpu = module.open_gpu(0);
    EXPECT_EQ(module.open_gpu(0), gpu);
    EXPECT_EQ(thrown([&] { static_cast<void>(module.open_gpu(1)); }).code, Code::invalid_argument);
    EXPECT_EQ(thrown([&] { static_cast<void>(module.make_id()); }).code, Code::internal);
    EXPECT_TRUE(module.library("", "").path.ends_with("/libnccl.so.2"));
    EXPECT_NE(module.make_id(), module.make_id());
  });
}

TEST(NcclModule, KeepsMemoryWhenEverythingElseIsGone) {
  with_fakes([] {
    const NcclModule& module = load_nccl();
    module.library("", "");
    auto gpu = module.open_gpu(0);
    auto data = module.allocate(gpu, 1000);
    EXPECT_NE(module.symmetric_address(gpu, data.get()), 0U);
    EXPECT_EQ(module.symmetric_address(gpu, data.get() + 64), module.symmetric_address(gpu, data.get()) + 64);
    EXPECT_EQ(module.symmetric_address(gpu, &module), 0U);
    gpu.reset();
    std::fill_n(data.get(), 1000, std::byte{1});
  });
}

TEST(NcclModule, MakesALane) {
  with_fakes([] {
    const NcclModule& module = load_nccl();
    module.library("", "");
    const auto gpu = module.open_gpu(0);
    const auto stream = gpu->make_stream();
    const auto lane = module.make_lane(gpu, *stream, {});
    const auto alone = lane->connect(module.make_id(), 0, 1);
    const auto data = alone->allocate(100);
    EXPECT_TRUE(alone->owns(data.get()));
    alone->broadcast(data.get(), 100, 0);
    lane->check();
    EXPECT_TRUE(lane->abort());
  });
}

}  // namespace
}  // namespace hora::nccl
