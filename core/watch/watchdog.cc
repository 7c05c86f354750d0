// SPDX-License-Identifier: Apache-2.0
#include "core/watch/watchdog.h"

#include "core/base/thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kMostBetween{5000};
constexpr std::chrono::milliseconds kLeastBetween{1};

}  // namespace

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<std::uint64_t()> progress,
                   std::function<void(const Status&)> notice)
    : limit_(limit), progress_(std::move(progress)), notice_(std::move(notice)) {
  if (limit_.count() != 0) thread_ = start_thread("watches operations", [this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::begin(Operation operation, const std::string& name, std::size_t more) {
  const std::lock_guard lock(mutex_);
  busy_ = true;
  ++begun_;
  operation_ = operation;
  name_ = name;
  more_ = more;
}

void Watchdog::end() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
}

void Watchdog::run() {
  const auto between = std::clamp(limit_ / 8, kLeastBetween, kMostBetween);
  // The state at the last look, and the time since which it has been so.
  std::uint64_t begun = 0;
  std::uint64_t moved = 0;
  TimePoint since{};
  bool told = false;
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, between, [this] { return ends_; })) {
    const bool same = busy_ && begun_ == begun;
    begun = begun_;
    const std::string what = fmt::format("{} of '{}'{}", name(operation_), name_,
                                         more_ == 0 ? "" : fmt::format(" and {} more tensors", more_));
    const bool busy = busy_;
    lock.unlock();
    const TimePoint now = Clock::now();
    const std::uint64_t progress = progress_();
    if (!same || progress != moved) {
      since = now;
      told = told && same;
    } else if (busy && !told && now - since >= limit_) {
      told = true;
      notice_({Code::timeout,
               fmt::format("{} has made no progress for {:g} s, though all ranks have submitted it: a rank's "
                           "engine stands still, or the network between is down; a longer wait is "
                           "HORA_OPERATION_TIMEOUT",
                           what, std::chrono::duration<double>(limit_).count())});
    }
    moved = progress;
    lock.lock();
  }
}

}  // namespace hora
