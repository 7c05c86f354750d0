// SPDX-License-Identifier: Apache-2.0
#include "core/watch/tracer.h"

#include <utility>

namespace hora {
namespace {

constexpr std::size_t kMany = 512;
constexpr std::chrono::milliseconds kOld{500};

}  // namespace

void Tracer::start(bool mark_cycles) {
  const std::lock_guard lock(mutex_);
  on_ = true;
  mark_cycles_ = mark_cycles;
  part_ = {};
}

void Tracer::add(Traced traced) {
  const std::lock_guard lock(mutex_);
  if (on_) part_.operations.push_back(std::move(traced));
}

void Tracer::mark_cycle(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (on_ && mark_cycles_) part_.cycles.push_back(now);
}

std::optional<TracePart> Tracer::take(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = part_.operations.size() + part_.cycles.size();
  if (!on_ || count == 0 || (count < kMany && now - taken_ < kOld)) return std::nullopt;
  return take_all(now);
}

TracePart Tracer::stop(TimePoint now) {
  const std::lock_guard lock(mutex_);
  on_ = false;
  TracePart part = take_all(now);
  part.last = true;
  return part;
}

TracePart Tracer::take_all(TimePoint now) {
  taken_ = now;
  TracePart part = std::exchange(part_, {});
  part.now = now;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  part.wall = std::chrono::nanoseconds(wall).count();
  return part;
}

}  // namespace hora
