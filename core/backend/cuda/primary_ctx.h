// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/driver.h"

#include <hora/status.h>

#include <string>

namespace hora::cuda {

/// A GPU's primary context: the one that a framework uses, too. Kept for as long as this exists. Thread-safe.
class PrimaryContext {
 public:
  /// `index` is less than count_gpus. Throws Error(internal).
  PrimaryContext(const CudaDriver& driver, int index);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  [[nodiscard]] int index() const { return index_; }
  /// "cuda:1", for messages.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext handle() const { return handle_; }
  /// Of the GPU. Throws Error(internal).
  [[nodiscard]] int attribute(CUdevice_attribute which) const;

 private:
  CudaDriver driver_;
  int index_;
  std::string name_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
};

/// A context is the calling thread's current one while this lives, and the one before is it again after that.
/// Meanwhile the thread's calls do not spoil a capture that another thread of the program makes: the driver
/// refuses most calls of all threads during one, and breaks it off, unless a thread says that its calls have
/// nothing to do with it. That does not hold for a call that waits for all that is on the context's streams.
class CurrentContext {
 public:
  /// Throws Error(internal).
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const CudaDriver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  ///< the thread's before, from then on
};

/// For what is given back: calls `release` with the context as the current one. If the driver does not give
/// it, as at the end of a process, there is nothing left to give back.
template <typename Release>
void in_context(const PrimaryContext& context, Release release) noexcept {
  try {
    const CurrentContext current(context);
    release();
  } catch (const Error&) {
    return;
  }
}

}  // namespace hora::cuda
