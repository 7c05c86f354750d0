// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"

#include <cstddef>
#include <memory>

namespace hora::cuda {

/// A stream of the driver's: of the highest priority, and not waiting for the legacy default stream.
class StreamHandle {
 public:
  /// Throws Error(internal).
  explicit StreamHandle(std::shared_ptr<const PrimaryContext> context);
  /// The work on the stream is still done.
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;

  [[nodiscard]] CUstream get() const { return handle_; }

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  CUstream handle_ = nullptr;
};

/// Fills memory of the GPU with zeros, and returns when that has been done. The context is the current one.
/// Throws Error(internal).
void clear(const std::shared_ptr<const PrimaryContext>& context, CUdeviceptr data, std::size_t bytes);

}  // namespace hora::cuda
