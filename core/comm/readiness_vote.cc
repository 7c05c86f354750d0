// SPDX-License-Identifier: Apache-2.0
#include "core/comm/readiness_vote.h"

#include <algorithm>

namespace hora {

void ReadinessVote::answer(std::uint64_t word, TimePoint now) {
  VotePart& own = *parts_[place_];
  own.answers[round_ % 2] = {word, now.time_since_epoch().count()};
  own.answered.store(round_, std::memory_order_seq_cst);
  answered_ = true;
  if (!is_complete()) return;
  for (VotePart* part : parts_) {
    WakeUp wake_up(part->wake_up);
    if (part != &own && wake_up.sleeps()) wake_up.ring();
  }
}

bool ReadinessVote::has_answered(int place) const {
  return parts_[static_cast<std::size_t>(place)]->answered.load(std::memory_order_acquire) >= round_;
}

void ReadinessVote::urge() {
  VotePart& own = *parts_[place_];
  if (own.urged.load(std::memory_order_relaxed) == round_) return;
  own.urged.store(round_, std::memory_order_seq_cst);
  for (VotePart* part : parts_) {
    if (part != &own) WakeUp(part->wake_up).ring();
  }
}

bool ReadinessVote::is_urged() const {
  return std::any_of(parts_.begin(), parts_.end(), [this](const VotePart* part) {
    return part->urged.load(std::memory_order_seq_cst) >= round_;
  });
}

bool ReadinessVote::is_complete() {
  while (next_ < parts_.size() && parts_[next_]->answered.load(std::memory_order_seq_cst) >= round_) ++next_;
  return next_ == parts_.size();
}

const ReadinessVote::Answers& ReadinessVote::conclude() {
  answers_.clear();
  for (const VotePart* part : parts_) answers_.push_back(part->answers[round_ % 2]);
  ++round_;
  next_ = 0;
  answered_ = false;
  return answers_;
}

std::vector<std::unique_ptr<ReadinessVote>> make_votes(int size) {
  const auto parts = std::make_shared<std::vector<VotePart>>(static_cast<std::size_t>(size));
  for (VotePart& part : *parts) tell(part.cores);
  const auto part = [&](int place) -> VotePart& { return (*parts)[static_cast<std::size_t>(place)]; };
  std::vector<std::unique_ptr<ReadinessVote>> calls;
  calls.reserve(parts->size());
  for (int place = 0; place < size; ++place)
    calls.push_back(std::make_unique<ReadinessVote>(size, place, parts, part));
  return calls;
}

}  // namespace hora
