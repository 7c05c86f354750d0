// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/doorbell.h"

#include "core/comm/control.h"

#include <hwy/cache_control.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace hora {
namespace {

// The words are shared between processes, so these are not the private futexes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Doorbell::Doorbell(std::shared_ptr<Arena> arena, int rank, int ranks, std::chrono::nanoseconds spin)
    : arena_(std::move(arena)), rank_(rank), ranks_(ranks), spin_(spin) {}

std::chrono::nanoseconds Doorbell::spin_for(int ranks) {
  cpu_set_t cores;
  const bool known = ::sched_getaffinity(0, sizeof cores, &cores) == 0;
  return known && ranks <= CPU_COUNT(&cores) ? std::chrono::microseconds(20) : std::chrono::microseconds(0);
}

void Doorbell::arrive() {
  arena_->seat(rank_).arrived.store(++phase_, std::memory_order_seq_cst);
  for (int rank = 0; rank < ranks_; ++rank) {
    Seat& seat = arena_->seat(rank);
    if (rank != rank_ && seat.sleeping.load(std::memory_order_seq_cst) != 0) ring(seat);
  }
}

void Doorbell::await_all() {
  throw_if_aborted();
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) await(rank);
  }
}

void Doorbell::await(int rank) {
  Seat& own = arena_->seat(rank_);
  const Seat& other = arena_->seat(rank);
  if (spin_until(other)) return;
  while (true) {
    const std::uint32_t bell = own.doorbell.load(std::memory_order_acquire);
    own.sleeping.store(1, std::memory_order_seq_cst);
    const bool arrived = other.arrived.load(std::memory_order_seq_cst) >= phase_;
    if (!arrived && !aborted_.load(std::memory_order_seq_cst)) futex_wait(own.doorbell, bell);
    own.sleeping.store(0, std::memory_order_relaxed);
    if (arrived) return;
    throw_if_aborted();
  }
}

bool Doorbell::spin_until(const Seat& seat) const {
  const auto arrived = [&] { return seat.arrived.load(std::memory_order_acquire) >= phase_; };
  if (arrived()) return true;
  if (spin_.count() == 0) return false;
  const TimePoint until = Clock::now() + spin_;
  do {
    for (int i = 0; i < 32; ++i) {
      if (arrived()) return true;
      hwy::Pause();  // saves energy, and leaves more to the core's other thread
    }
  } while (Clock::now() < until);
  return false;
}

void Doorbell::ring(Seat& seat) const {
  seat.doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(seat.doorbell);
}

void Doorbell::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    why_ = why;
    aborted_.store(true, std::memory_order_seq_cst);
  }
  ring(arena_->seat(rank_));
}

void Doorbell::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error(why_);
}

}  // namespace hora
