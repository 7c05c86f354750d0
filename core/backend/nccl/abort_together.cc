// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/abort_together.h"

#include "core/base/log.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace hora {
namespace {

using Communicators = std::vector<std::shared_ptr<Communicator>>;

/// How far the thread is that aborts.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

// When the group has been ended NCCL has taken all aborts, also where it says that they are in progress: each
// communicator goes when its abort is done, and there is nobody left who could be asked.
void abort_all(const NcclSeat& seat, const Communicators& communicators) {
  const CurrentContext current(*seat.gpu->context());
  const NcclFunctions& nccl = seat.nccl->functions;
  const bool grouped = nccl.group_start() == ncclSuccess;
  for (const auto& communicator : communicators) {
    if (communicator->native() != nullptr) nccl.abort(communicator->native());
  }
  if (grouped) nccl.group_end();
}

// The thread and whoever waits for it share `progress`; `communicators` are the thread's until `ended` is set
// under the mutex, and then whoever's finds it so, which is at most the one that waits. The thread has shares
// in all that it touches, so it may stay behind for ever. Nobody else waits for it.
void run(const NcclSeat& seat, const Communicators& communicators,
         const std::shared_ptr<Progress>& progress) {
  try {
    abort_all(seat, communicators);
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("NCCL's communicators could not be aborted: {}", error.what()));
  }
  const std::lock_guard lock(progress->mutex);
  progress->ended = true;
  progress->changed.notify_all();
}

}  // namespace

bool abort_together(const NcclSeat& seat, const Communicators& communicators) noexcept {
  if (communicators.empty()) return true;
  try {
    const auto progress = std::make_shared<Progress>();
    std::thread thread([seat, communicators, progress] { run(seat, communicators, progress); });
    std::unique_lock lock(progress->mutex);
    const bool ended =
        progress->changed.wait_for(lock, seat.options.abort_timeout, [&] { return progress->ended; });
    lock.unlock();
    if (ended) {
      thread.join();
      for (const auto& communicator : communicators) communicator->forget();
      return true;
    }
    thread.detach();
    log(LogLevel::warning,
        fmt::format(
            "NCCL {} has not returned from ncclCommAbort after {} ms; it is left to itself, with the GPU's "
            "memory that it knows of. Save what is to be kept and end the process",
            nccl_version(seat.nccl->library.version), seat.options.abort_timeout.count()));
    return false;
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("NCCL's communicators could not be aborted: {}", error.what()));
    return false;
  }
}

}  // namespace hora
