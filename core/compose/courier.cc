// SPDX-License-Identifier: Apache-2.0
#include "core/compose/courier.h"

#include "core/base/thread.h"

#include <utility>

namespace hora {
namespace {

/// How it ended.
Status outcome_of(const std::function<void()>& errand) {
  try {
    errand();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return {Code::internal, error.what()};
  }
  return {};
}

}  // namespace

Courier::~Courier() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  sent_.notify_one();
  thread_.join();
}

std::uint64_t Courier::send(std::function<void()> errand) {
  if (!thread_.joinable()) thread_ = start_thread("moves tensors between hosts", [this] { run(); });
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    errands_.push_back(std::move(errand));
    number = ++given_;
  }
  sent_.notify_one();
  return number;
}

void Courier::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ >= number; });
  if (failed_ != 0 && failed_ <= number) throw Error(why_);
}

void Courier::drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ == given_; });
}

void Courier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    sent_.wait(lock, [&] { return leaving_ || !errands_.empty(); });
    if (errands_.empty()) return;
    const auto errand = std::move(errands_.front());
    errands_.pop_front();
    if (failed_ == 0) {
      lock.unlock();
      const Status status = outcome_of(errand);
      lock.lock();
      if (!status.ok()) {
        failed_ = ended_ + 1;
        why_ = status;
      }
    }
    ++ended_;
    done_.notify_all();
  }
}

}  // namespace hora
