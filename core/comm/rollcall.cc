// SPDX-License-Identifier: Apache-2.0
#include "core/comm/rollcall.h"

#include <algorithm>

namespace hora {

void Rollcall::answer(std::uint64_t word, TimePoint now) {
  RollcallSeat& own = *seats_[place_];
  own.answers[round_ % 2] = {word, now.time_since_epoch().count()};
  own.answered.store(round_, std::memory_order_seq_cst);
  answered_ = true;
  if (!is_complete()) return;
  for (RollcallSeat* seat : seats_) {
    WakeUp wake_up(seat->wake_up);
    if (seat != &own && wake_up.sleeps()) wake_up.ring();
  }
}

bool Rollcall::has_answered(int place) const {
  return seats_[static_cast<std::size_t>(place)]->answered.load(std::memory_order_acquire) >= round_;
}

void Rollcall::urge() {
  RollcallSeat& own = *seats_[place_];
  if (own.urged.load(std::memory_order_relaxed) == round_) return;
  own.urged.store(round_, std::memory_order_seq_cst);
  for (RollcallSeat* seat : seats_) {
    if (seat != &own) WakeUp(seat->wake_up).ring();
  }
}

bool Rollcall::is_urged() const {
  return std::any_of(seats_.begin(), seats_.end(), [this](const RollcallSeat* seat) {
    return seat->urged.load(std::memory_order_seq_cst) >= round_;
  });
}

bool Rollcall::is_complete() {
  while (next_ < seats_.size() && seats_[next_]->answered.load(std::memory_order_seq_cst) >= round_) ++next_;
  return next_ == seats_.size();
}

const Rollcall::Answers& Rollcall::conclude() {
  answers_.clear();
  for (const RollcallSeat* seat : seats_) answers_.push_back(seat->answers[round_ % 2]);
  ++round_;
  next_ = 0;
  answered_ = false;
  return answers_;
}

std::vector<std::unique_ptr<Rollcall>> make_rollcalls(int size) {
  const auto seats = std::make_shared<std::vector<RollcallSeat>>(static_cast<std::size_t>(size));
  for (RollcallSeat& seat : *seats) tell(seat.cores);
  const auto seat = [&](int place) -> RollcallSeat& { return (*seats)[static_cast<std::size_t>(place)]; };
  std::vector<std::unique_ptr<Rollcall>> calls;
  calls.reserve(seats->size());
  for (int place = 0; place < size; ++place)
    calls.push_back(std::make_unique<Rollcall>(size, place, seats, seat));
  return calls;
}

}  // namespace hora
