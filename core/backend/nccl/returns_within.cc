// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/returns_within.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace hora::nccl {
namespace {

struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

}  // namespace

// The thread and whoever waits for it share `progress`; what the call touches is the thread's until `ended`
// is set under the mutex, and then whoever's finds it so, which is at most the one that waits.
bool returns_within(std::chrono::milliseconds most, std::function<void()> call) {
  const auto progress = std::make_shared<Progress>();
  std::thread thread([call = std::move(call), progress] {
    call();
    const std::lock_guard lock(progress->mutex);
    progress->ended = true;
    progress->changed.notify_all();
  });
  std::unique_lock lock(progress->mutex);
  const bool ended = progress->changed.wait_for(lock, most, [&] { return progress->ended; });
  lock.unlock();
  if (ended) {
    thread.join();
  } else {
    thread.detach();
  }
  return ended;
}

}  // namespace hora::nccl
