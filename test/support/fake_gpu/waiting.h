// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/stream.h"

#include <cuda.h>

#include <atomic>
#include <thread>

namespace hora {

/// Returns when all that had been put on the event's stream has been done. Null: at once.
inline void wait_for(const Event* event) {
  while (event != nullptr && !event->reached()) std::this_thread::yield();
}

/// Work on a fake GPU's stream that is not done until `open` is called; its end opens it, too.
class HeldStream {
 public:
  /// The context of the stream is the current one.
  explicit HeldStream(CUstream stream) { ::cuLaunchHostFunc(stream, &HeldStream::wait, this); }
  ~HeldStream() {
    open();
    while (!passed_) std::this_thread::yield();
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void open() { open_ = true; }

 private:
  static void wait(void* gate) {
    auto& self = *static_cast<HeldStream*>(gate);
    while (!self.open_) std::this_thread::yield();
    self.passed_ = true;
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> passed_{false};
};

}  // namespace hora
