// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/event_pool.h"
#include "core/backend/cuda/kernel_module.h"
#include "core/backend/cuda/primary_ctx.h"
#include "core/device/stream.h"

#include <memory>

namespace hora::cuda {

/// A Stream that is the driver's. The work that others put on `handle` is ordered with its own work.
class CudaStream : public Stream {
 public:
  [[nodiscard]] virtual CUstream handle() const = 0;
};

/// A stream of the highest priority, which does not wait for the legacy default stream. Throws
/// Error(internal).
std::unique_ptr<CudaStream> make_cuda_stream(std::shared_ptr<const PrimaryContext> context,
                                             std::shared_ptr<const KernelModule> kernels,
                                             std::shared_ptr<EventPool> events);

}  // namespace hora::cuda
