// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace hora::cuda {

/// How memory is given back that was allocated in the order of a stream: in that order, too. The driver frees
/// it at once when it is told to without a stream, whoever still uses it; and what is told to a stream during
/// a capture is not done then. So what cannot be freed waits here. Thread-safe.
class StreamFrees {
 public:
  explicit StreamFrees(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {}
  /// Waits for the GPU if there is anything left, and frees that.
  ~StreamFrees();
  StreamFrees(const StreamFrees&) = delete;
  StreamFrees& operator=(const StreamFrees&) = delete;

  // With the context as the current one:

  /// Behind what is on the stream; if that is being captured then with the next `go_on` for it, and if it is
  /// gone then when this goes.
  void free(CUstream stream, CUdeviceptr data);
  /// The stream is there, and is not being captured.
  void go_on(CUstream stream);

 private:
  struct Waiting {
    std::optional<CUstream> stream;  ///< nothing: it is gone
    CUdeviceptr data;
  };

  const std::shared_ptr<const PrimaryContext> context_;
  std::mutex mutex_;
  std::vector<Waiting> waiting_;  ///< with the mutex
};

}  // namespace hora::cuda
