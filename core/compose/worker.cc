// SPDX-License-Identifier: Apache-2.0
#include "core/compose/worker.h"

#include "core/base/thread.h"

#include <utility>

namespace hora {
namespace {

/// How it ended.
Status outcome_of(const std::function<void()>& task) {
  try {
    task();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return {Code::internal, error.what()};
  }
  return {};
}

}  // namespace

Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  sent_.notify_one();
  thread_.join();
}

std::uint64_t Worker::send(std::function<void()> task) {
  if (!thread_.joinable()) thread_ = start_thread("moves tensors between hosts", [this] { run(); });
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    number = ++given_;
  }
  sent_.notify_one();
  return number;
}

void Worker::await(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ >= number; });
  if (failed_ != 0 && failed_ <= number) throw Error(why_);
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ == given_; });
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    sent_.wait(lock, [&] { return leaving_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    if (failed_ == 0) {
      lock.unlock();
      const Status status = outcome_of(task);
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
