// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/fake_driver.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace hora {

/// A framework's stream on a fake GPU, and memory of that GPU. The GPU's context is the current one of the
/// thread that makes this, and that thread ends it.
class FrameworkStream {
 public:
  FrameworkStream(FakeDriver& driver, int gpu) : gpu_(gpu), stream_(driver.make_stream(gpu)) {
    CUcontext context = nullptr;
    EXPECT_EQ(::cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(::cuDevicePrimaryCtxRetain(&context, gpu_), CUDA_SUCCESS);
    EXPECT_EQ(::cuCtxPushCurrent(context), CUDA_SUCCESS);
  }
  ~FrameworkStream() {
    for (void* memory : memory_) ::cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
    CUcontext context = nullptr;
    ::cuCtxPopCurrent(&context);
    ::cuDevicePrimaryCtxRelease(gpu_);
  }
  FrameworkStream(const FrameworkStream&) = delete;
  FrameworkStream& operator=(const FrameworkStream&) = delete;

  [[nodiscard]] CUstream stream() const { return stream_; }
  /// Memory that lives as long as this.
  void* allocate(std::size_t bytes) {
    CUdeviceptr made = 0;
    EXPECT_EQ(::cuMemAlloc(&made, bytes), CUDA_SUCCESS);
    return memory_.emplace_back(reinterpret_cast<void*>(made));
  }
  /// Puts a copy on the stream.
  void copy(void* to, const void* from, std::size_t bytes) {
    EXPECT_EQ(::cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                              stream_),
              CUDA_SUCCESS);
  }
  /// Returns when nothing is on the stream.
  void finish() { EXPECT_EQ(::cuStreamSynchronize(stream_), CUDA_SUCCESS); }

 private:
  int gpu_;
  CUstream stream_;
  std::vector<void*> memory_;
};

}  // namespace hora
