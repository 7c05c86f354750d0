// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/completer.h"

#include "core/base/thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kMostFlights = 128;  // far fewer launches than the 1024 that a GPU's queue takes
constexpr std::chrono::microseconds kShortestSleep{20};
constexpr std::chrono::microseconds kLongestSleep{1000};

std::chrono::microseconds sleep_after(Clock::duration waited) {
  return std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(waited / 8), kShortestSleep,
                    kLongestSleep);
}

}  // namespace

struct Completer::Course {
  Flight flight;
  TimePoint added;
  std::optional<TimePoint> began = std::nullopt;  // the thread's: when its inputs were seen to be there
  bool told = false;                              // the thread's: it has been told to `failed`
};

Completer::Completer(std::chrono::milliseconds timeout, FlightNotices notices)
    : timeout_(timeout), notices_(std::move(notices)) {}

Completer::~Completer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// Unless it has been.
void Completer::start() {
  if (!thread_.joinable()) thread_ = start_thread("waits for GPUs", [this] { run(); });
}

void Completer::make_room() {
  start();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return flights_.size() < kMostFlights || interrupted_; });
  if (interrupted_) throw Error(*interrupted_);
}

void Completer::add(Flight flight) {
  start();
  {
    const std::lock_guard lock(mutex_);
    flights_.push_back(std::make_shared<Course>(Course{std::move(flight), Clock::now()}));
  }
  changed_.notify_all();
}

std::size_t Completer::flights() const {
  const std::lock_guard lock(mutex_);
  return flights_.size();
}

Status Completer::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return flights_.empty() || interrupted_; });
  return interrupted_.value_or(Status{});
}

void Completer::interrupt(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!interrupted_) interrupted_ = why;
  }
  changed_.notify_all();
}

void Completer::fail(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!interrupted_) interrupted_ = why;
    failed_ = why;
  }
  changed_.notify_all();
}

bool Completer::end(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  give_up_at_ = Clock::now() + timeout;
  changed_.notify_all();
  changed_.wait(lock, [this] { return flights_.empty(); });
  return !gave_up_;
}

void Completer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !flights_.empty(); });
    if (flights_.empty()) return;
    see_to_first(lock);
  }
}

void Completer::see_to_first(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Course> course = flights_.front();
  const bool told = course->told;
  lock.unlock();
  Status failure;
  bool reached = false;
  try {
    const auto& inputs = course->flight.inputs;
    const auto there = [](const std::shared_ptr<Event>& input) { return input->reached(); };
    reached = course->flight.end->reached();
    if (!reached && !course->began && std::all_of(inputs.begin(), inputs.end(), there))
      course->began = Clock::now();
  } catch (const Error& error) {
    failure = {Code::aborted, fmt::format("{} failed on the GPU: {}", course->flight.what, error.what())};
  }
  const TimePoint now = Clock::now();
  if (timeout_.count() > 0 && !reached && course->began && now - *course->began > timeout_) {
    failure = {Code::timeout,
               fmt::format(
                   "{} has been under way on the GPU for {} s, all inputs being there: another rank's GPU or "
                   "the network stands still (HORA_OPERATION_TIMEOUT)",
                   course->flight.what, std::chrono::duration<double>(timeout_).count())};
  }
  if (!failure.ok() && !told) {
    course->told = true;
    notices_.failed(failure);
  }
  lock.lock();
  if (reached) {
    const Status status = failed_.value_or(Status{});
    lock.unlock();
    course->flight.finish(status, true);
    lock.lock();
    flights_.pop_front();
    changed_.notify_all();
    if (!notices_.ended) return;
    lock.unlock();
    notices_.ended();
    lock.lock();
    return;
  }
  if (give_up_at_ && now >= *give_up_at_) return give_up(lock);
  changed_.wait_for(lock, sleep_after(now - course->added));
}

void Completer::give_up(std::unique_lock<std::mutex>& lock) {
  gave_up_ = true;
  const Status status = *failed_;
  while (!flights_.empty()) {
    const std::shared_ptr<Course> course = flights_.front();
    lock.unlock();
    course->flight.finish(status, false);
    lock.lock();
    flights_.pop_front();
  }
  changed_.notify_all();
}

}  // namespace hora
