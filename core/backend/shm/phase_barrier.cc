// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/phase_barrier.h"

#include "core/base/futex.h"
#include "core/comm/control.h"
#include "core/device/spin.h"

#include <utility>

namespace hora::shm {

PhaseBarrier::PhaseBarrier(Communicator communicator) : communicator_(std::move(communicator)) {
  SharedCores& own = communicator_.own_block().cores;
  const SharedCores& first = communicator_.first_block().cores;
  if (&own == &first) {
    tell(own);
  } else {
    copy_told(own, first);
  }
}

void PhaseBarrier::arrive() {
  next_ = 0;
  communicator_.own_block().arrived.store(++phase_, std::memory_order_seq_cst);
  for (int place = 0; place < communicator_.size(); ++place) {
    RankBlock& block = communicator_.block(place);
    if (place == communicator_.place() || block.sleeping.load(std::memory_order_seq_cst) == 0) continue;
    if (!all_arrived(std::memory_order_seq_cst)) return;  // the last one to arrive rings
    ring(block);
  }
}

void PhaseBarrier::await_all() {
  throw_if_aborted();
  RankBlock& own = communicator_.own_block();
  bool arrived = spin(crowded_, [this] { return all_arrived(std::memory_order_acquire); });
  while (!arrived) {
    const std::uint32_t wakes = own.wakes.load(std::memory_order_acquire);
    own.sleeping.store(1, std::memory_order_seq_cst);
    arrived = all_arrived(std::memory_order_seq_cst);
    if (!arrived && !aborted_.load(std::memory_order_seq_cst)) futex_wait(own.wakes, wakes);
    own.sleeping.store(0, std::memory_order_relaxed);
    if (!arrived) throw_if_aborted();
  }
  if (phase_ == 1) {
    const auto told = [this](int place) -> const SharedCores& { return communicator_.block(place).cores; };
    crowded_ = cores_for_each(communicator_.size(), told) == 0;
  }
}

/// Remembers how far it got, as nobody un-arrives.
bool PhaseBarrier::all_arrived(std::memory_order order) {
  while (next_ < communicator_.size() && communicator_.block(next_).arrived.load(order) >= phase_) ++next_;
  return next_ == communicator_.size();
}

void PhaseBarrier::ring(RankBlock& block) const {
  block.wakes.fetch_add(1, std::memory_order_release);
  futex_wake(block.wakes);
}

std::uint64_t PhaseBarrier::progress() const noexcept {
  std::uint64_t phases = 0;
  for (int place = 0; place < communicator_.size(); ++place)
    phases += communicator_.block(place).arrived.load(std::memory_order_relaxed);
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
  ring(communicator_.own_block());
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
