// SPDX-License-Identifier: Apache-2.0
#include "core/comm/readiness_vote.h"

#include <algorithm>

namespace hora {

void ReadinessVote::answer(std::uint64_t word, TimePoint now) {
  VotePart& own = *seats_[place_];
  own.answers[round_ % 2] = {word, now.time_since_epoch().count()};
  own.answered.store(round_, std::memory_order_seq_cst);
  answered_ = true;
  if (!is_complete()) return;
  for (VotePart* seat : seats_) {
    WakeUp wake_up(seat->wake_up);
    if (seat != &own && wake_up.sleeps()) wake_up.ring();
  }
}

bool ReadinessVote::has_answered(int place) const {
  return seats_[static_cast<std::size_t>(place)]->answered.load(std::memory_order_acquire) >= round_;
}

void ReadinessVote::urge() {
  VotePart& own = *seats_[place_];
  if (own.urged.load(std::memory_order_relaxed) == round_) return;
  own.urged.store(round_, std::memory_order_seq_cst);
  for (VotePart* seat : seats_) {
    if (seat != &own) WakeUp(seat->wake_up).ring();
  }
}

bool ReadinessVote::is_urged() const {
  return std::any_of(seats_.begin(), seats_.end(), [this](const VotePart* seat) {
    return seat->urged.load(std::memory_order_seq_cst) >= round_;
  });
}

bool ReadinessVote::is_complete() {
  while (next_ < seats_.size() && seats_[next_]->answered.load(std::memory_order_seq_cst) >= round_) ++next_;
  return next_ == seats_.size();
}

const ReadinessVote::Answers& ReadinessVote::conclude() {
  answers_.clear();
  for (const VotePart* seat : seats_) answers_.push_back(seat->answers[round_ % 2]);
  ++round_;
  next_ = 0;
  answered_ = false;
  return answers_;
}

std::vector<std::unique_ptr<ReadinessVote>> make_votes(int size) {
  const auto seats = std::make_shared<std::vector<VotePart>>(static_cast<std::size_t>(size));
  for (VotePart& seat : *seats) tell(seat.cores);
  const auto seat = [&](int place) -> VotePart& { return (*seats)[static_cast<std::size_t>(place)]; };
  std::vector<std::unique_ptr<ReadinessVote>> calls;
  calls.reserve(seats->size());
  for (int place = 0; place < size; ++place)
    calls.push_back(std::make_unique<ReadinessVote>(size, place, seats, seat));
  return calls;
}

}  // namespace hora
