// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/kernel_module.h"

#include "core/backend/cuda/kernels.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <string>
#include <utility>

// The output of nvcc for kernels.cu, as it is. CMake says where the file lies.
asm(R"(
.section .rodata
.balign 16
.globl hora_cuda_kernels
.hidden hora_cuda_kernels
hora_cuda_kernels:
.incbin ")" HORA_CUDA_KERNELS R"("
.byte 0
.previous
)");
extern "C" const unsigned char hora_cuda_kernels[];  // NOLINT: as the assembler has it

namespace hora::cuda {
namespace {

constexpr std::array kNames{"f16", "bf16", "f32", "f64"};
constexpr std::array kFormats{"e4m3", "e5m2"};

std::size_t index_of(DType dtype) {
  return static_cast<std::size_t>(dtype) - static_cast<std::size_t>(DType::float16);
}

std::size_t index_of_format(DType format) { return format == DType::float8_e4m3fn ? 0 : 1; }

}  // namespace

KernelModule::KernelModule(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {
  const CurrentContext current(*context_);
  const CudaDriver& driver = context_->driver();
  int version = 0;
  driver.check(driver.driver_get_version(&version), "cuDriverGetVersion");
  large_ = version >= kLargeParametersSince;
  multiprocessors_ =
      static_cast<std::uint32_t>(context_->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  load();
  try {
    find_all();
  } catch (...) {
    driver.module_unload(module_);
    throw;
  }
}

// The driver's result of a release is not looked at: at the end of a process the driver may be gone.
KernelModule::~KernelModule() {
  in_context(*context_, [&] { context_->driver().module_unload(module_); });
}

void KernelModule::load() {
  const CudaDriver& driver = context_->driver();
  const CUresult result = driver.module_load_data(&module_, hora_cuda_kernels);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    throw Error(
        Code::unavailable,
        fmt::format(
            "Hora's kernels were not built for {}, which has compute capability {}.{}: {}; it must be "
            "at "
            "least 7.5, and for a newer one than Hora was built for update the driver, or build Hora with a "
            "newer CUDA than {}.{}",
            context_->name(), context_->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            context_->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), driver.text(result),
            CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10));
  }
  driver.check(result, "cuModuleLoadData", context_->name());
}

void KernelModule::find_all() {
  copy_ = find("hora_copy");
  for (std::size_t to = 0; to < kFloats; ++to) {
    for (std::size_t from = 0; from < kFloats; ++from)
      move_[to][from] = find(fmt::format("hora_move_{}_{}", kNames[to], kNames[from]));
    if (to != index_of(DType::float64)) sum_[to] = find(fmt::format("hora_sum_{}", kNames[to]));
  }
  for (std::size_t format = 0; format < kFormats.size(); ++format) {
    for (std::size_t dtype = 0; dtype < kFloats; ++dtype) {
      blocks_[format].quantize[dtype] =
          find(fmt::format("hora_quantize_{}_{}", kFormats[format], kNames[dtype]));
      blocks_[format].dequantize[dtype] =
          find(fmt::format("hora_dequantize_{}_{}", kNames[dtype], kFormats[format]));
    }
    blocks_[format].sum = find(fmt::format("hora_sum_{}", kFormats[format]));
  }
}

KernelModule::Pair KernelModule::find(const std::string& name) const {
  const CudaDriver& driver = context_->driver();
  Pair found{};
  driver.check(driver.module_get_function(&found[0], module_, name.c_str()), "cuModuleGetFunction", name);
  if (!large_) return found;
  const std::string large = name + "_large";
  driver.check(driver.module_get_function(&found[1], module_, large.c_str()), "cuModuleGetFunction", large);
  return found;
}

CUfunction KernelModule::copy(bool large) const { return copy_[large ? 1 : 0]; }

CUfunction KernelModule::move(DType to, DType from, bool large) const {
  return move_.at(index_of(to)).at(index_of(from))[large ? 1 : 0];
}

CUfunction KernelModule::sum(DType dtype, bool large) const {
  return sum_.at(index_of(dtype))[large ? 1 : 0];
}

CUfunction KernelModule::quantize(DType format, DType from, bool large) const {
  return blocks_.at(index_of_format(format)).quantize.at(index_of(from))[large ? 1 : 0];
}

CUfunction KernelModule::dequantize(DType to, DType format, bool large) const {
  return blocks_.at(index_of_format(format)).dequantize.at(index_of(to))[large ? 1 : 0];
}

CUfunction KernelModule::sum_blocks(DType format, bool large) const {
  return blocks_.at(index_of_format(format)).sum[large ? 1 : 0];
}

}  // namespace hora::cuda
