// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_driver.h"

#include "test/support/fake_gpu/driver_graphs.h"
#include "test/support/fake_gpu/fake_machine.h"

namespace hora {

FakeDriver::FakeDriver(std::vector<FakeGpu> gpus) : machine_(std::make_shared<FakeMachine>(std::move(gpus))) {
  set_fake_machine(machine_);
}

FakeDriver::~FakeDriver() { set_fake_machine(nullptr); }

cuda::CudaDriver FakeDriver::table() const {
  return {&::cuGetErrorName,
          &::cuGetErrorString,
          &::cuInit,
          &::cuDriverGetVersion,
          &::cuDeviceGetCount,
          &::cuDeviceGet,
          &::cuDeviceGetName,
          &::cuDeviceGetUuid,
          &::cuDeviceGetAttribute,
          &::cuDevicePrimaryCtxRetain,
          &::cuDevicePrimaryCtxRelease,
          &::cuCtxPushCurrent,
          &::cuCtxPopCurrent,
          &::cuCtxSynchronize,
          &::cuCtxGetStreamPriorityRange,
          &::cuThreadExchangeStreamCaptureMode,
          &::cuMemAlloc,
          &::cuMemFree,
          &::cuMemPoolCreate,
          &::cuMemPoolDestroy,
          &::cuMemPoolSetAttribute,
          &::cuMemAllocFromPoolAsync,
          &::cuMemFreeAsync,
          &::cuMemHostAlloc,
          &::cuMemFreeHost,
          &::cuMemHostRegister,
          &::cuMemHostUnregister,
          &::cuMemGetInfo,
          &::cuMemcpyAsync,
          &::cuMemsetD8Async,
          &::cuPointerGetAttributes,
          &::cuStreamCreateWithPriority,
          &::cuStreamDestroy,
          &::cuStreamSynchronize,
          &::cuStreamWaitEvent,
          &::cuStreamIsCapturing,
          &::cuStreamBatchMemOp,
          &::cuStreamGetCaptureInfo_v2,
          &::cuUserObjectCreate,
          &::cuUserObjectRelease,
          &::cuGraphRetainUserObject,
          &::cuEventCreate,
          &::cuEventDestroy,
          &::cuEventRecord,
          &::cuEventQuery,
          &::cuModuleLoadData,
          &::cuModuleUnload,
          &::cuModuleGetFunction,
          &::cuLaunchKernel};
}

void FakeDriver::set_version(int version) {
  const std::lock_guard lock(machine_->mutex);
  machine_->version = version;
}

void FakeDriver::fail_call(const std::string& function, int nth, CUresult error) {
  const std::lock_guard lock(machine_->mutex);
  machine_->failures[function] = {nth, error};
}

int FakeDriver::calls(const std::string& function) const {
  const std::lock_guard lock(machine_->mutex);
  const auto found = machine_->calls.find(function);
  return found == machine_->calls.end() ? 0 : found->second;
}

void FakeDriver::hold(int gpu) {
  const std::lock_guard lock(machine_->mutex);
  machine_->gpu(gpu).held = true;
}

void FakeDriver::release(int gpu) {
  const std::lock_guard lock(machine_->mutex);
  machine_->gpu(gpu).held = false;
  machine_->changed.notify_all();
}

void FakeDriver::fail(int gpu, CUresult error) {
  const std::lock_guard lock(machine_->mutex);
  machine_->fail(gpu, error);
}

void FakeDriver::finish(int gpu) {
  FakeLock lock(machine_->mutex);
  machine_->finish(gpu, lock);
}

CUstream FakeDriver::make_stream(int gpu) {
  const std::lock_guard lock(machine_->mutex);
  return machine_->add_stream(gpu, true);
}

void FakeDriver::capture(CUstream stream, bool on) {
  const std::lock_guard lock(machine_->mutex);
  if (on) {
    machine_->begin_capture(stream);
  } else {
    machine_->end_capture(stream);
  }
}

bool FakeDriver::spoilt_capture() const {
  const std::lock_guard lock(machine_->mutex);
  return machine_->spoilt;
}

FakeUsage FakeDriver::usage(int gpu) const {
  const std::lock_guard lock(machine_->mutex);
  return machine_->gpu(gpu).usage;
}

}  // namespace hora
