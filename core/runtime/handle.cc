// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/handle.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

/// A much longer time overflows the clock.
std::chrono::milliseconds bounded(std::chrono::milliseconds time) {
  constexpr std::chrono::hours kForEver{24 * 365 * 100};
  return std::clamp<std::chrono::milliseconds>(time, std::chrono::milliseconds(0), kForEver);
}

}  // namespace

void Handle::State::launch(Result value, std::shared_ptr<Event> end) {
  {
    const std::lock_guard lock(mutex);
    launched = std::move(value);
    event = std::move(end);
  }
  ready.notify_all();
}

void Handle::State::set(Result value) {
  {
    const std::lock_guard lock(mutex);
    result = std::move(value);
    ended.store(true, std::memory_order_release);
  }
  ready.notify_all();
  for (const auto& notice : std::exchange(notices, {})) notice();  // nobody adds any more
}

void Handle::State::on_end(std::function<void()> notice) {
  {
    const std::lock_guard lock(mutex);
    if (!result) return notices.push_back(std::move(notice));
  }
  notice();
}

void Handle::State::help(TimePoint deadline) const {
  if (has_ended()) return;
  owner.check();
  if (helper) helper->help(*this, deadline);
}

void Handle::State::help_to_launch(TimePoint deadline) {
  if (has_ended()) return;
  owner.check();
  {
    const std::lock_guard lock(mutex);
    if (launched || result) return;
  }
  help(deadline);
}

bool Handle::has_ended() const noexcept { return state_->has_ended(); }

/// Where the engine shares this core, nothing would go on while somebody asks again and again.
bool Handle::poll() const {
  if (has_ended() || !state_->owner.is_this()) return true;
  if (state_->is_in_graph) state_->help(TimePoint::min());
  ::sched_yield();
  return has_ended();
}

bool Handle::wait_for(std::chrono::milliseconds time) const {
  const TimePoint deadline = Clock::now() + bounded(time);
  state_->help(deadline);
  std::unique_lock lock(state_->mutex);
  return state_->ready.wait_until(lock, deadline, [this] { return state_->result.has_value(); });
}

bool Handle::wait_launched_for(std::chrono::milliseconds time) const {
  const TimePoint deadline = Clock::now() + bounded(time);
  state_->help_to_launch(deadline);
  std::unique_lock lock(state_->mutex);
  return state_->ready.wait_until(
      lock, deadline, [this] { return state_->launched.has_value() || state_->result.has_value(); });
}

const Result& Handle::wait() const {
  state_->help(TimePoint::max());
  std::unique_lock lock(state_->mutex);
  state_->ready.wait(lock, [this] { return state_->result.has_value(); });
  const Result& result = *state_->result;
  if (!result.status.ok()) throw Error(result.status);
  return result;
}

const Result& Handle::wait_on(void* stream) const {
  state_->help_to_launch(TimePoint::max());
  std::unique_lock lock(state_->mutex);
  state_->ready.wait(lock, [this] { return state_->launched || state_->result; });
  const Result& result = state_->result ? *state_->result : *state_->launched;
  const auto event = state_->event;
  lock.unlock();                      // a driver may take its time, and nobody who polls waits for that
  if (event) event->hold_up(stream);  // first: after an error, too, the GPU may still read the input
  if (!result.status.ok()) throw Error(result.status);
  return result;
}

}  // namespace hora
