// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/driver.h"

namespace hora {

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
  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext handle() const { return handle_; }

 private:
  CudaDriver driver_;
  int index_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
};

/// A context is the calling thread's current one while this lives, and the one before is it again after that.
/// Meanwhile the thread's calls do not spoil a capture that another thread of the program makes: the driver
/// refuses most calls of all threads during one, and breaks it off, unless a thread says that its calls have
/// nothing to do with it.
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

}  // namespace hora
