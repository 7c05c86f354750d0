// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/delays.h"

#include <hora/hora.h>

#include <algorithm>
#include <utility>

namespace hora {

std::uint64_t Delays::open(const std::string& name, std::chrono::milliseconds time, TimePoint now) {
  const std::lock_guard lock(mutex_);
  scopes_.emplace(next_, Scope{name, now + time});
  change();
  return next_++;
}

void Delays::close(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (scopes_.erase(number) != 0) change();
}

std::optional<Delay> Delays::take_change(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(changed_, false)) return std::nullopt;
  if (scopes_.empty()) return Delay{};
  const auto last = std::max_element(scopes_.begin(), scopes_.end(), [](const auto& one, const auto& other) {
    return one.second.until < other.second.until;
  });
  const auto left = in_milliseconds(last->second.until - now);
  return Delay{last->second.name, std::max(left, std::chrono::milliseconds(0))};
}

void Delays::on_change(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void Delays::change() {
  changed_ = true;
  if (wake_) wake_();
}

ExpectedDelay::ExpectedDelay(ExpectedDelay&& other) noexcept : end_(std::exchange(other.end_, {})) {}

ExpectedDelay& ExpectedDelay::operator=(ExpectedDelay&& other) noexcept {
  end();
  end_ = std::exchange(other.end_, {});
  return *this;
}

ExpectedDelay::~ExpectedDelay() { end(); }

void ExpectedDelay::end() noexcept {
  if (const auto end = std::exchange(end_, {})) end();
}

}  // namespace hora
