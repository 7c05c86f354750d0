// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/stream_handle.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace hora::cuda {

StreamHandle::StreamHandle(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {
  const CurrentContext current(*context_);
  const CudaDriver& driver = context_->driver();
  const std::string& about = context_->name();
  int least = 0;
  int greatest = 0;
  driver.check(driver.ctx_get_stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange", about);
  driver.check(driver.stream_create_with_priority(&handle_, CU_STREAM_NON_BLOCKING, greatest),
               "cuStreamCreateWithPriority", about);
}

// The driver's result of a release is not looked at: at the end of a process the driver may be gone.
StreamHandle::~StreamHandle() {
  in_context(*context_, [&] { context_->driver().stream_destroy(handle_); });
}

void clear(const std::shared_ptr<const PrimaryContext>& context, CUdeviceptr data, std::size_t bytes) {
  const CudaDriver& driver = context->driver();
  const std::string about = fmt::format("{} bytes on {}", bytes, context->name());
  const StreamHandle stream(context);
  driver.check(driver.memset_d8_async(data, 0, bytes, stream.get()), "cuMemsetD8Async", about);
  driver.check(driver.stream_synchronize(stream.get()), "cuStreamSynchronize", about);
}

}  // namespace hora::cuda
