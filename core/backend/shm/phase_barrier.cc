// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/phase_barrier.h"

#include "core/base/futex.h"
#include "core/comm/control.h"
#include "core/device/spin.h"

#include <utility>

namespace hora::shm {

PhaseBarrier::PhaseBarrier(Circle circle) : circle_(std::move(circle)) {
  SharedCores& own = circle_.own_seat().cores;
  const SharedCores& first = circle_.first_seat().cores;
  if (&own == &first) {
    tell(own);
  } else {
    copy_told(own, first);
  }
}

void PhaseBarrier::arrive() {
  next_ = 0;
  circle_.own_seat().arrived.store(++phase_, std::memory_order_seq_cst);
  for (int place = 0; place < circle_.size(); ++place) {
    Seat& seat = circle_.seat(place);
    if (place == circle_.place() || seat.sleeping.load(std::memory_order_seq_cst) == 0) continue;
    if (!all_arrived(std::memory_order_seq_cst)) return;  // the last one to arrive rings
    ring(seat);
  }
}

void PhaseBarrier::await_all() {
  throw_if_aborted();
  Seat& own = circle_.own_seat();
  bool arrived = spin(crowded_, [this] { return all_arrived(std::memory_order_acquire); });
  while (!arrived) {
    const std::uint32_t bell = own.wakes.load(std::memory_order_acquire);
    own.sleeping.store(1, std::memory_order_seq_cst);
    arrived = all_arrived(std::memory_order_seq_cst);
    if (!arrived && !aborted_.load(std::memory_order_seq_cst)) futex_wait(own.wakes, bell);
    own.sleeping.store(0, std::memory_order_relaxed);
    if (!arrived) throw_if_aborted();
  }
  if (phase_ == 1) {
    const auto told = [this](int place) -> const SharedCores& { return circle_.seat(place).cores; };
    crowded_ = cores_for_each(circle_.size(), told) == 0;
  }
}

/// Remembers how far it got, as nobody un-arrives.
bool PhaseBarrier::all_arrived(std::memory_order order) {
  while (next_ < circle_.size() && circle_.seat(next_).arrived.load(order) >= phase_) ++next_;
  return next_ == circle_.size();
}

void PhaseBarrier::ring(Seat& seat) const {
  seat.wakes.fetch_add(1, std::memory_order_release);
  futex_wake(seat.wakes);
}

std::uint64_t PhaseBarrier::progress() const noexcept {
  std::uint64_t phases = 0;
  for (int place = 0; place < circle_.size(); ++place)
    phases += circle_.seat(place).arrived.load(std::memory_order_relaxed);
  return phases;
}

void PhaseBarrier::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    why_ = why;
    aborted_.store(true, std::memory_order_seq_cst);
  }
  abortion_.notify_all();
  ring(circle_.own_seat());
}

Status PhaseBarrier::cause_of(const Status& own) {
  if (own.code == Code::aborted) {
    std::unique_lock lock(mutex_);
    abortion_.wait_for(lock, kUntilControlTells, [this] { return aborted_.load(std::memory_order_relaxed); });
  }
  abort(own);  // unless it is aborted already
  const std::lock_guard lock(mutex_);
  return why_;
}

void PhaseBarrier::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error(why_);
}

}  // namespace hora::shm
