// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/primary_ctx.h"

#include <fmt/format.h>

namespace hora::cuda {

PrimaryContext::PrimaryContext(const CudaDriver& driver, int index)
    : driver_(driver), index_(index), name_(fmt::format("cuda:{}", index)) {
  driver_.check(driver_.device_get(&device_, index), "cuDeviceGet", name_);
  driver_.check(driver_.device_primary_ctx_retain(&handle_, device_), "cuDevicePrimaryCtxRetain", name_);
}

// No result of the release leaves anything to do: at the end of a process the driver may be gone.
PrimaryContext::~PrimaryContext() { driver_.device_primary_ctx_release(device_); }

int PrimaryContext::attribute(CUdevice_attribute which) const {
  int value = 0;
  driver_.check(driver_.device_get_attribute(&value, which, device_), "cuDeviceGetAttribute", name_);
  return value;
}

CurrentContext::CurrentContext(const PrimaryContext& context) : driver_(context.driver()) {
  driver_.check(driver_.ctx_push_current(context.handle()), "cuCtxPushCurrent");
  const CUresult result = driver_.thread_exchange_stream_capture_mode(&mode_);
  if (result == CUDA_SUCCESS) return;
  CUcontext popped = nullptr;
  driver_.ctx_pop_current(&popped);
  driver_.check(result, "cuThreadExchangeStreamCaptureMode");
}

CurrentContext::~CurrentContext() {
  driver_.thread_exchange_stream_capture_mode(&mode_);
  CUcontext popped = nullptr;
  driver_.ctx_pop_current(&popped);
}

}  // namespace hora::cuda
