// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/driver.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hora {

class FakeMachine;

/// The properties of a fake GPU. A value.
struct FakeGpu {
  std::string name = "Fake GPU";
  std::size_t memory = std::size_t{1} << 30;
  int multiprocessors = 4;
  int compute_capability = 90;  ///< 9.0
  bool memory_pools = true;
  int pci_bus = -1;  ///< -1: one of its own. Two that have the same are parts of one GPU
};

/// The resources of a fake GPU that are in use. A value.
struct FakeUsage {
  std::size_t bytes = 0;       ///< of its memory
  std::size_t peak_bytes = 0;  ///< the most there ever were
  std::size_t blocks = 0;      ///< pieces of its memory
  std::size_t pinned_blocks = 0;
  int streams = 0;  ///< without the default stream, and those that FakeDriver::make_stream has made
  int events = 0;
  int modules = 0;
  int retains = 0;  ///< of its primary context

  bool operator==(const FakeUsage&) const = default;
};

/// A machine with GPUs that are none, and the driver's functions for it: their memory is the host's, filled
/// with 0xA5 when it is allocated; a stream is a queue, and a thread that works it off; kernels are
/// those of kernels.cu, compiled for the host (fake_kernels.h). Ranks may be threads: the current context and
/// the capture mode are each thread's own. One machine at a time in a process; without one every function
/// says CUDA_ERROR_DEINITIALIZED. Thread-safe.
class FakeDriver {
 public:
  explicit FakeDriver(std::vector<FakeGpu> gpus = {FakeGpu{}});
  /// Drops the work that is still on the streams.
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  /// The functions of the driver that Hora uses. More of them are declared by <cuda.h>, and can be called by
  /// name: cuLaunchHostFunc, cuCtxGetDevice, cuCtxGetCurrent, cuStreamGetDevice, cuEventSynchronize,
  /// cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate, cuGraphLaunch, cuGraphExecDestroy,
  /// cuGraphDestroy.
  [[nodiscard]] cuda::CudaDriver table() const;

  /// Sets the version that cuDriverGetVersion returns: 13000 is 13.0.
  void set_version(int version);
  /// The `nth` call from here on of a function ("cuMemAlloc"; 1: the next) returns `error`, once. It does
  /// nothing then, unless it gives something back, which happens all the same.
  void fail_call(const std::string& function, int nth, CUresult error);
  /// How often it has been called.
  [[nodiscard]] int calls(const std::string& function) const;

  /// The GPU hangs: work on its streams is not begun until `release`.
  void hold(int gpu);
  void release(int gpu);
  /// The GPU breaks: work on its streams is not done any more, and calls that concern it return `error`.
  void fail(int gpu, CUresult error);
  /// Returns when nothing is on the GPU's streams.
  void finish(int gpu);

  /// A framework's stream, which belongs to this.
  [[nodiscard]] CUstream make_stream(int gpu);
  /// Whether work that is put on the stream is being captured, into a graph that nobody gets.
  void capture(CUstream stream, bool on);
  /// Whether a call has spoilt a capture: by a thread that had not said that it has nothing to do with it, or
  /// one that would have tied it to what is not part of it.
  [[nodiscard]] bool spoilt_capture() const;

  [[nodiscard]] FakeUsage usage(int gpu) const;

 private:
  std::shared_ptr<FakeMachine> machine_;
};

}  // namespace hora
