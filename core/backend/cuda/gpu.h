// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"
#include "core/device/gpu.h"

#include <cstddef>
#include <memory>

namespace hora::cuda {

/// A Gpu that is the driver's. Thread-safe.
class CudaGpu : public Gpu {
 public:
  [[nodiscard]] virtual const std::shared_ptr<const PrimaryContext>& context() const = 0;
  /// The free part of the GPU's memory, in bytes; any process may use the rest. Throws Error(internal).
  [[nodiscard]] virtual std::size_t free_memory() const = 0;
  /// Memory that others take for Hora or give back (then less than 0), for `memory`, in bytes.
  virtual void count_taken(std::ptrdiff_t bytes) = 0;
  virtual void count_nccl(std::ptrdiff_t bytes) = 0;
};

/// Initialises the driver, and opens GPU `index` of it. Throws Error(invalid_argument) if there is no GPU of
/// this number, Error(unavailable) if it cannot be used.
std::shared_ptr<CudaGpu> open_cuda_gpu(const CudaDriver& driver, int index);

}  // namespace hora::cuda
