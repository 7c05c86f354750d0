// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/driver.h"

#include <hora/status.h>

#include <dlfcn.h>
#include <fmt/format.h>

namespace hora::cuda {
namespace {

/// "13.0"
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void refuse_old(const std::string& file, const std::string& what) {
  throw Error(
      Code::unavailable,
      fmt::format("the NVIDIA driver is too old: {} {}, and Hora's kernels were built with CUDA {}, which "
                  "needs a driver for CUDA {} or newer: update the driver, or build Hora with an older CUDA",
                  file, what, version_text(CUDA_VERSION), version_text(kOldestDriver)));
}

void refuse_version(const CudaDriver& driver, const std::string& file) {
  int version = 0;
  const CUresult result = driver.driver_get_version(&version);
  if (result != CUDA_SUCCESS) {
    throw Error(Code::unavailable,
                fmt::format("cannot use the NVIDIA driver: cuDriverGetVersion of {} failed with {}", file,
                            driver.text(result)));
  }
  if (version < kOldestDriver) refuse_old(file, fmt::format("supports CUDA {}", version_text(version)));
}

}  // namespace

std::string CudaDriver::text(CUresult result) const {
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (get_error_string(result, &meaning) != CUDA_SUCCESS || meaning == nullptr) return name;
  return fmt::format("{}: {}", name, meaning);
}

void CudaDriver::check(CUresult result, std::string_view call, std::string_view about) const {
  if (result == CUDA_SUCCESS) return;
  const std::string of = about.empty() ? "" : fmt::format(" ({})", about);
  throw Error(Code::internal, fmt::format("{}{} failed with {}", call, of, text(result)));
}

CudaDriver load_driver(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(
        Code::unavailable,
        fmt::format("there is no NVIDIA driver here ({}): install it, or start the container with GPUs, as "
                    "with 'docker run --gpus all'",
                    ::dlerror()));
  }
  CudaDriver driver;
  const char* missing = nullptr;
  for_each_function(driver, [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  });
  const bool speaks = driver.driver_get_version != nullptr && driver.get_error_name != nullptr &&
                      driver.get_error_string != nullptr;
  if (speaks) refuse_version(driver, file);
  if (missing != nullptr) refuse_old(file, fmt::format("has no {}", missing));
  return driver;
}

int count_gpus(const CudaDriver& driver) {
  const CUresult result = driver.init(0);
  if (result == CUDA_ERROR_NO_DEVICE) return 0;
  if (result != CUDA_SUCCESS) {
    throw Error(
        Code::unavailable,
        fmt::format("cannot use the NVIDIA driver: cuInit failed with {}; nvidia-smi should say more. A "
                    "process that was forked after its parent used the GPU cannot use it: start it anew",
                    driver.text(result)));
  }
  int count = 0;
  driver.check(driver.device_get_count(&count), "cuDeviceGetCount");
  return count;
}

}  // namespace hora::cuda
