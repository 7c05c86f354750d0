// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/stream_frees.h"

#include <algorithm>

namespace hora::cuda {

// Memory that is left if the GPU does not end, or a capture is under way even then, goes with the process.
StreamFrees::~StreamFrees() {
  if (waiting_.empty()) return;
  const CudaDriver& driver = context_->driver();
  in_context(*context_, [&] {
    if (driver.ctx_synchronize() != CUDA_SUCCESS) return;
    for (const auto& each : waiting_) driver.mem_free(each.data);
  });
}

// The legacy default stream is there while a stream that it waits for is being captured, but says nothing.
void StreamFrees::free(CUstream stream, CUdeviceptr data) {
  const CudaDriver& driver = context_->driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = driver.stream_is_capturing(stream, &status);
  if (asked == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) {
    go_on(stream);
    if (driver.mem_free_async(data, stream) == CUDA_SUCCESS) return;
  }
  const bool there = asked == CUDA_SUCCESS || asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const std::lock_guard lock(mutex_);
  waiting_.push_back({there ? std::optional(stream) : std::nullopt, data});
}

void StreamFrees::go_on(CUstream stream) {
  const CudaDriver& driver = context_->driver();
  const std::lock_guard lock(mutex_);
  const auto freed = [&](const Waiting& each) {
    return each.stream == stream && driver.mem_free_async(each.data, stream) == CUDA_SUCCESS;
  };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), freed), waiting_.end());
}

}  // namespace hora::cuda
