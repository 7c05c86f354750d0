// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/driver.h"

#include <optional>

namespace hora::cuda {

/// The graph into which a stream is being captured. A value.
struct Capture {
  CUgraph graph = nullptr;
  cuuint64_t number = 0;  ///< of the capture: no other one of this process has it
};

/// The capture of `stream`; nothing if it is not being captured. The context is the current one. Throws
/// Error(invalid_argument) if an error has ended the capture, or if `stream` is CUDA's default stream, which
/// would have to wait for another stream that is being captured.
[[nodiscard]] std::optional<Capture> capture_of(const CudaDriver& driver, CUstream stream);

/// Throws Error(invalid_argument), with `remedy`, if there is a capture of `stream`. The context is the
/// current one.
void refuse_capture(const CudaDriver& driver, CUstream stream, const char* remedy);

}  // namespace hora::cuda
