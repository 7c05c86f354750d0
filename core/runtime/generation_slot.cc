// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/generation_slot.h"

#include <hora/status.h>

#include <utility>

namespace hora {
namespace {

const RankEnd kNobodyWaits{0, false, "is not waited for", {}};  // for a formation that is given up

}  // namespace

void GenerationSlot::form(Generation generation, Membership membership, const Formation::Connect& connect,
                          TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  formed_ = false;
  formation_ = std::make_unique<Formation>(std::move(generation), std::move(membership), connect, deadline,
                                           host_memory_, [this] { event_.ring(); });
}

std::optional<Formation::Outcome> GenerationSlot::take_outcome() {
  const std::lock_guard lock(mutex_);
  if (!formation_ || formed_) return std::nullopt;
  auto outcome = formation_->outcome();
  formed_ = outcome.has_value();
  return outcome;
}

void GenerationSlot::offer() {
  const std::lock_guard lock(mutex_);
  can_take_ = !over_;
  changed_.notify_all();
}

GenerationSlot::Where GenerationSlot::withdraw(std::uint64_t generation, const std::optional<RankEnd>& lost) {
  const std::lock_guard lock(mutex_);
  can_take_ = false;
  if (taken_ == generation) return Where::taken;
  if (formed_) return Where::formed;
  if (formation_) formation_->cancel(lost.value_or(kNobodyWaits));
  return Where::forming;
}

void GenerationSlot::drop() {
  std::unique_ptr<Formation> unused;
  const std::lock_guard lock(mutex_);
  unused = std::move(formation_);
}

void GenerationSlot::plan_change(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  change_due_ = generation;
}

void GenerationSlot::end(const Status& why, bool left) {
  const std::lock_guard lock(mutex_);
  end_locked(why, left);
}

void GenerationSlot::end_locked(const Status& why, bool left) {
  can_take_ = false;
  if (!over_) left_ = left;
  if (!over_) over_ = why;
  changed_.notify_all();
}

std::optional<std::uint64_t> GenerationSlot::take_first_step() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(first_step_.is_news, false)) return std::nullopt;
  return first_step_.generation;
}

bool GenerationSlot::take_wish_to_leave() { return asked_.to_leave.exchange(false); }

bool GenerationSlot::has_session_ended(std::uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  return session_ended_ == generation;
}

GenerationSlot::Finish GenerationSlot::finish() const {
  const std::lock_guard lock(mutex_);
  return finish_;
}

bool GenerationSlot::leaves() const {
  const std::lock_guard lock(mutex_);
  return over_ && finish_ != Finish::well;
}

bool GenerationSlot::await(TimePoint first_deadline) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return can_take_ || over_; };
  if (taken_) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_until(lock, first_deadline, ready)) {
    return false;
  }
  if (!can_take_) throw Error(*over_);
  return true;
}

std::optional<Generation> GenerationSlot::take() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(can_take_, false)) return std::nullopt;
  Generation next = formation_->take();
  formation_.reset();
  taken_ = next.world.membership.generation;
  host_memory_ = next.world.host_memory;
  return next;
}

bool GenerationSlot::has_more() const {
  const std::lock_guard lock(mutex_);
  return !over_;
}

bool GenerationSlot::change_is_due() const {
  const std::lock_guard lock(mutex_);
  return change_due_ > 0 && change_due_ == taken_;
}

void GenerationSlot::ask_to_leave() {
  asked_.to_leave = true;
  event_.ring();
}

void GenerationSlot::use_gpu() {
  if (!asked_.uses_gpu.exchange(true)) event_.ring();
}

void GenerationSlot::step_counted() {
  const std::lock_guard lock(mutex_);
  if (!taken_ || first_step_.generation == *taken_) return;
  first_step_ = {*taken_, true};
  event_.ring();
}

bool GenerationSlot::has_left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

void GenerationSlot::set_session_ended() {
  const std::lock_guard lock(mutex_);
  session_ended_ = taken_;
  event_.ring();
}

void GenerationSlot::set_finish(bool well, const Status& why) {
  const std::lock_guard lock(mutex_);
  end_locked(why, false);
  if (finish_ == Finish::no) finish_ = well ? Finish::well : Finish::badly;
  if (formation_) formation_->cancel(kNobodyWaits);
  event_.ring();
}

}  // namespace hora
