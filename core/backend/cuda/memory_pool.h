// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"

#include <cstddef>
#include <memory>

namespace hora::cuda {

/// A pool of a GPU's memory, which is taken and freed in the order of streams. Hora has one of its own, and
/// not the driver's default pool, so that `let_no_stream_wait` concerns nobody else. Memory may outlive it.
/// Thread-safe.
class MemoryPool {
 public:
  /// The GPU has pools. Throws Error(internal).
  explicit MemoryPool(std::shared_ptr<const PrimaryContext> context);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// From now on an allocation makes no stream wait for another one. When memory runs out, a pool does so at
  /// first, to take again what was freed on the other. Hora's stream would then wait for a CUDA graph that
  /// waits for Hora. Throws Error(internal).
  void let_no_stream_wait() const;
  /// For what is on the stream from now on. `bytes` is more than 0. Returns the driver's result.
  CUresult allocate(CUdeviceptr* data, std::size_t bytes, CUstream stream) const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  CUmemoryPool pool_ = nullptr;
};

}  // namespace hora::cuda
