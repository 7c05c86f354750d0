// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace hora::cuda {

/// The functions of the CUDA driver that Hora uses: a table, so that nothing is linked to the driver and a
/// test can hand in another one. A value.
struct CudaDriver {
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;

  decltype(&::cuDeviceGetCount) device_get_count = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetName) device_get_name = nullptr;
  decltype(&::cuDeviceGetUuid) device_get_uuid = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;

  decltype(&::cuDevicePrimaryCtxRetain) device_primary_ctx_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) device_primary_ctx_release = nullptr;
  decltype(&::cuCtxPushCurrent) ctx_push_current = nullptr;
  decltype(&::cuCtxPopCurrent) ctx_pop_current = nullptr;
  decltype(&::cuCtxSynchronize) ctx_synchronize = nullptr;
  decltype(&::cuCtxGetStreamPriorityRange) ctx_get_stream_priority_range = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode = nullptr;

  decltype(&::cuMemAlloc) mem_alloc = nullptr;
  decltype(&::cuMemFree) mem_free = nullptr;
  decltype(&::cuMemPoolCreate) mem_pool_create = nullptr;
  decltype(&::cuMemPoolDestroy) mem_pool_destroy = nullptr;
  decltype(&::cuMemPoolSetAttribute) mem_pool_set_attribute = nullptr;
  decltype(&::cuMemAllocFromPoolAsync) mem_alloc_from_pool_async = nullptr;
  decltype(&::cuMemFreeAsync) mem_free_async = nullptr;
  decltype(&::cuMemHostAlloc) mem_host_alloc = nullptr;
  decltype(&::cuMemFreeHost) mem_free_host = nullptr;
  decltype(&::cuMemHostRegister) mem_host_register = nullptr;
  decltype(&::cuMemHostUnregister) mem_host_unregister = nullptr;
  decltype(&::cuMemGetInfo) mem_get_info = nullptr;
  decltype(&::cuMemcpyAsync) memcpy_async = nullptr;
  decltype(&::cuMemsetD8Async) memset_d8_async = nullptr;
  decltype(&::cuPointerGetAttributes) pointer_get_attributes = nullptr;

  decltype(&::cuStreamCreateWithPriority) stream_create_with_priority = nullptr;
  decltype(&::cuStreamDestroy) stream_destroy = nullptr;
  decltype(&::cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&::cuStreamWaitEvent) stream_wait_event = nullptr;
  decltype(&::cuStreamIsCapturing) stream_is_capturing = nullptr;
  decltype(&::cuStreamBatchMemOp) stream_batch_mem_op = nullptr;
  /// In its second version, which every driver has: the headers have the one of their own version.
  CUresult (*stream_get_capture_info)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* number,
                                      CUgraph* graph, const CUgraphNode** dependencies,
                                      std::size_t* count) = nullptr;

  decltype(&::cuUserObjectCreate) user_object_create = nullptr;
  decltype(&::cuUserObjectRelease) user_object_release = nullptr;
  decltype(&::cuGraphRetainUserObject) graph_retain_user_object = nullptr;

  decltype(&::cuEventCreate) event_create = nullptr;
  decltype(&::cuEventDestroy) event_destroy = nullptr;
  decltype(&::cuEventRecord) event_record = nullptr;
  decltype(&::cuEventQuery) event_query = nullptr;

  decltype(&::cuModuleLoadData) module_load_data = nullptr;
  decltype(&::cuModuleUnload) module_unload = nullptr;
  decltype(&::cuModuleGetFunction) module_get_function = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;

  /// Throws Error(internal) unless `result` is success: the call, what it was about ("3 bytes on cuda:0"),
  /// and the error's name and text.
  void check(CUresult result, std::string_view call, std::string_view about = {}) const;
  /// "CUDA_ERROR_INVALID_VALUE: invalid argument"
  [[nodiscard]] std::string text(CUresult result) const;
};

/// Calls visit(function, name) for every function of the table, where the name is what the library exports.
template <typename Visit>
void for_each_function(CudaDriver& driver, Visit visit) {
  visit(driver.get_error_name, "cuGetErrorName");
  visit(driver.get_error_string, "cuGetErrorString");
  visit(driver.init, "cuInit");
  visit(driver.driver_get_version, "cuDriverGetVersion");
  visit(driver.device_get_count, "cuDeviceGetCount");
  visit(driver.device_get, "cuDeviceGet");
  visit(driver.device_get_name, "cuDeviceGetName");
  visit(driver.device_get_uuid, "cuDeviceGetUuid_v2");
  visit(driver.device_get_attribute, "cuDeviceGetAttribute");
  visit(driver.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  visit(driver.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  visit(driver.ctx_push_current, "cuCtxPushCurrent_v2");
  visit(driver.ctx_pop_current, "cuCtxPopCurrent_v2");
  visit(driver.ctx_synchronize, "cuCtxSynchronize");
  visit(driver.ctx_get_stream_priority_range, "cuCtxGetStreamPriorityRange");
  visit(driver.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  visit(driver.mem_alloc, "cuMemAlloc_v2");
  visit(driver.mem_free, "cuMemFree_v2");
  visit(driver.mem_pool_create, "cuMemPoolCreate");
  visit(driver.mem_pool_destroy, "cuMemPoolDestroy");
  visit(driver.mem_pool_set_attribute, "cuMemPoolSetAttribute");
  visit(driver.mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync");
  visit(driver.mem_free_async, "cuMemFreeAsync");
  visit(driver.mem_host_alloc, "cuMemHostAlloc");
  visit(driver.mem_free_host, "cuMemFreeHost");
  visit(driver.mem_host_register, "cuMemHostRegister_v2");
  visit(driver.mem_host_unregister, "cuMemHostUnregister");
  visit(driver.mem_get_info, "cuMemGetInfo_v2");
  visit(driver.memcpy_async, "cuMemcpyAsync");
  visit(driver.memset_d8_async, "cuMemsetD8Async");
  visit(driver.pointer_get_attributes, "cuPointerGetAttributes");
  visit(driver.stream_create_with_priority, "cuStreamCreateWithPriority");
  visit(driver.stream_destroy, "cuStreamDestroy_v2");
  visit(driver.stream_synchronize, "cuStreamSynchronize");
  visit(driver.stream_wait_event, "cuStreamWaitEvent");
  visit(driver.stream_is_capturing, "cuStreamIsCapturing");
  visit(driver.stream_batch_mem_op, "cuStreamBatchMemOp_v2");
  visit(driver.stream_get_capture_info, "cuStreamGetCaptureInfo_v2");
  visit(driver.user_object_create, "cuUserObjectCreate");
  visit(driver.user_object_release, "cuUserObjectRelease");
  visit(driver.graph_retain_user_object, "cuGraphRetainUserObject");
  visit(driver.event_create, "cuEventCreate");
  visit(driver.event_destroy, "cuEventDestroy_v2");
  visit(driver.event_record, "cuEventRecord");
  visit(driver.event_query, "cuEventQuery");
  visit(driver.module_load_data, "cuModuleLoadData");
  visit(driver.module_unload, "cuModuleUnload");
  visit(driver.module_get_function, "cuModuleGetFunction");
  visit(driver.launch_kernel, "cuLaunchKernel");
}

/// The oldest driver whose CUDA runs the kernels that this Hora brings: that of the same major version.
inline constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;

/// Opens the driver's library, which then stays until the process ends. Throws Error(unavailable) if there
/// is none, or one that is too old: what is wrong, and what to do. Nothing is initialised. Thread-safe.
[[nodiscard]] CudaDriver load_driver(const std::string& file = "libcuda.so.1");

/// Initialises the driver, and says how many GPUs this process may use; 0 if it finds none. Throws
/// Error(unavailable) if it cannot be used. Thread-safe.
[[nodiscard]] int count_gpus(const CudaDriver& driver);

}  // namespace hora::cuda
