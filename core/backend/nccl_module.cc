// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl_module.h"

#include "core/backend/module.h"

#include <fmt/format.h>

namespace hora {
namespace {

constexpr int kMajor = 10'000;
constexpr int kMinor = 100;

Module module_for_nccl() {
  return load_module(
      "nccl",
      {.absent =
           "tensors on a GPU need it: build Hora where CMake finds nvcc, cuda.h and nccl.h (pip install "
           "nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-nccl-cu13), and install the library beside libhora",
       .unloadable = "tensors on a GPU need it: install the library that is missing"});
}

}  // namespace

bool nccl_reduces(const Reduction& reduction) {
  if (is_bitwise(reduction.op) || is_logical(reduction.op)) return false;
  if (is_float(reduction.dtype)) return true;
  const DType dtype = reduction.dtype;
  const bool has_type =
      dtype != DType::int16 && dtype != DType::uint16 && !is_complex(dtype) && !is_float8(dtype);
  return has_type && reduction.prescale == 1.0 && reduction.postscale == 1.0 && reduction.divisor == 1;
}

std::string nccl_version(int version) {
  return fmt::format("{}.{}.{}", version / kMajor, version % kMajor / kMinor, version % kMinor);
}

const NcclModule& load_nccl() { return *static_cast<const NcclModule*>(module_for_nccl().functions); }

std::string nccl_module_path() { return module_for_nccl().path; }

}  // namespace hora
