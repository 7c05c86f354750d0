// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/driver.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

// The library that FAKE_LIBCUDA names has a machine of its own, with one GPU.

TEST(LoadDriver, FindsEveryFunction) {
  CudaDriver driver = load_driver(FAKE_LIBCUDA);
  std::set<std::string> names;
  for_each_function(driver, [&](auto& function, const char* name) {
    EXPECT_NE(function, nullptr) << name;
    names.insert(name);
  });
  EXPECT_EQ(names.size() * sizeof(void*), sizeof(CudaDriver)) << "a function without a name";
  EXPECT_EQ(count_gpus(driver), 1);
}

TEST(LoadDriver, SaysWhatToDoWithoutADriver) {
  const Status status = thrown([] { (void)load_driver("libno_driver.so.1"); });
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_THAT(status.message, HasSubstr("there is no NVIDIA driver here (libno_driver.so.1: "));
  EXPECT_THAT(status.message, HasSubstr("install it, or start the container with GPUs"));
}

TEST(LoadDriver, TakesNoLibraryThatLacksAFunction) {
  const Status status = thrown([] { (void)load_driver(EMPTY_LIBRARY); });
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_THAT(status.message, HasSubstr("the NVIDIA driver is too old: "));
  EXPECT_THAT(status.message, HasSubstr("has no cuGetErrorName"));
}

TEST(LoadDriver, TakesNoDriverOfAnOlderCuda) {
  ::setenv("FAKE_CUDA_VERSION", "11040", 1);
  const Status status = thrown([] { (void)load_driver(FAKE_LIBCUDA); });
  ::unsetenv("FAKE_CUDA_VERSION");
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_THAT(status.message,
              HasSubstr("libcuda.so.1 supports CUDA 11.4, and Hora's kernels were built with CUDA"));
  EXPECT_THAT(status.message, HasSubstr("update the driver, or build Hora with an older CUDA"));
}

TEST(CountGpus, FindsNoneWhereThereAreNone) {
  const FakeDriver fake(std::vector<FakeGpu>{});
  EXPECT_EQ(count_gpus(fake.table()), 0);
}

TEST(CountGpus, SaysWhyTheDriverCannotBeUsed) {
  FakeDriver fake;
  fake.fail_call("cuInit", 1, CUDA_ERROR_UNKNOWN);
  const Status status = thrown([&] { (void)count_gpus(fake.table()); });
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_THAT(status.message, HasSubstr("cuInit failed with CUDA_ERROR_UNKNOWN: unknown error"));
}

TEST(CudaDriver, NamesTheCallAndTheError) {
  const FakeDriver fake;
  const CudaDriver driver = fake.table();
  driver.check(CUDA_SUCCESS, "cuMemAlloc");
  const Status status = thrown([&] { driver.check(CUDA_ERROR_INVALID_VALUE, "cuMemAlloc", "3 bytes"); });
  EXPECT_EQ(status.code, Code::internal);
  EXPECT_EQ(status.message, "cuMemAlloc (3 bytes) failed with CUDA_ERROR_INVALID_VALUE: invalid argument");
  EXPECT_EQ(driver.text(static_cast<CUresult>(998)), "CUDA error 998");
}

}  // namespace
}  // namespace hora::cuda
