// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/members.h"

#include <hora/torch.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace hora::elastic {
namespace {

using Outcome = state::StateTransfer::Outcome;

constexpr const char* kRefusal = "this process cannot join the job, which trains something else";

}  // namespace

bool is_of_a_change(const Runtime& hora, const Error& error) {
  return hora.is_elastic() && (error.code() == Code::generation_ended || error.code() == Code::rank_failed);
}

Members::Members(Runtime& hora, State state)
    : hora_(hora), state_(std::move(state)), needs_state_(is_alone()), who_(who()) {
  hora_.set_takes_in(false);
  retry([this] {
    require_alike(hora_, "elastic.training.alike", "the arguments of Training", state_.description());
  });
  give_to_all();
}

Who Members::who() const { return {hora_.generation(), hora_.rank(), hora_.size()}; }

void Members::give_to_all() {
  retry([this] { state_.give(0, hora_.rank() != 0, false); });
}

void Members::join() {
  if (!is_alone()) return;
  hora_.set_takes_in(true);
  change([this] { next_generation(); });
  for (bool has_state = false; !has_state;) {
    try {
      await_state();
      has_state = true;
    } catch (const Error& error) {
      if (!is_of_a_change(hora_, error)) throw;
      change([this] { next_generation(); });
    }
  }
}

void Members::begin_step() {
  follow();  // another training may have changed the ranks
  if (needs_state_ && joins_.empty()) {
    throw Error(
        Code::invalid_argument,
        "this process has joined the job while another Training trained, and has no state of this one: "
        "make a Training when the one before it has ended");
  }
  if (hora_.change_is_due() && transfer_) end_steps();
  hora_.set_takes_in(true);
  if (hora_.change_is_due()) return change([this] { next_generation(); });
  try {
    go_on_giving(false);
  } catch (const Error& error) {
    if (!is_of_a_change(hora_, error)) throw;
    change([this] { next_generation(); });
  }
}

void Members::end_steps() {
  hora_.set_takes_in(false);
  while (transfer_) retry([] {});
}

bool Members::end_step(bool is_void, const std::function<void()>& make,
                       const std::function<void()>& take_back) {
  bool counts = false;
  // From here on to the next step, unless this one is taken back.
  if (!is_void) hora_.set_takes_in(false);
  change([&] {
    if (is_void) next_generation();
    counts = !is_void && commit();
    if (counts) {
      make();
      step_counts();
    } else {
      take_back();  // before others get the state
    }
  });
  return counts;
}

void Members::retry(const std::function<void()>& function) {
  for (bool counts = false; !counts;) {
    try {
      while (transfer_ && outcome_ != Outcome::is_complete) {
        confirm();
        go_on_giving(true);
      }
      function();
      state_.await();
    } catch (const Error& error) {
      if (!is_of_a_change(hora_, error)) throw;
      change([this] { next_generation(); });
      continue;
    }
    change([&] {
      counts = commit();
      if (counts) step_counts();
    });
  }
}

void Members::change(const std::function<void()>& function) {
  function();
  follow();
}

void Members::follow() {
  while (who() != who_) {
    who_ = who();
    end_handover();
    state_.begin_generation();
    if (hora_.state_root() >= 0) share_state();
  }
}

void Members::next_generation() {
  end_if_it_has_left([this] { hora_.next_generation(); });
}

bool Members::commit() {
  bool counts = true;
  if (hora_.is_elastic()) end_if_it_has_left([&] { counts = hora_.commit(!needs_state_); });
  return counts;
}

/// Ends the program if there is no other generation because this process has left.
void Members::end_if_it_has_left(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error&) {
    if (hora_.has_left()) std::exit(0);
    throw;
  }
}

std::optional<Members::Share> Members::share() const {
  const int trainers = hora_.size() - hora_.hot_spares();
  if (hora_.rank() >= trainers) return std::nullopt;
  if (joins_.empty()) return Share{hora_.rank(), trainers};
  if (needs_state_) return std::nullopt;
  const auto first = joins_.begin();
  return Share{static_cast<int>(std::count(first, first + hora_.rank(), false)),
               static_cast<int>(std::count(first, first + trainers, false))};
}

void Members::await_state() {
  if (transfer_ && transfer_->has_last_part()) transfer_->await_part();
}

void Members::confirm() {
  if (!transfer_ || outcome_) return;
  outcome_ = transfer_->confirm();
  if (outcome_ == Outcome::is_complete) needs_state_ = false;  // also if the step does not count
}

/// Begins to give the state to the ranks that have just joined. They have it when all ranks have voted for
/// the next step, or a later one if it is large.
void Members::share_state() {
  try {
    root_ = hora_.state_root();
    require_like(hora_, "elastic.training.joins", kRefusal, state_.description(), root_, needs_state_);
    const torch::Tensor all =
        allgather(hora_, torch::tensor({needs_state_}), {.name = "elastic.training.needs"});
    for (int rank = 0; rank < hora_.size(); ++rank) joins_.push_back(all[rank].item<bool>());
    begin_handover(true);
  } catch (const Error& error) {
    if (!is_of_a_change(hora_, error)) throw;
    next_generation();
  }
}

void Members::begin_handover(bool in_parts) {
  transfer_.reset();  // before its memory
  units_ = state_.give(root_, needs_state_, true);
  transfer_ = std::make_unique<state::StateTransfer>(hora_, joins_);
  transfer_->begin_part(memory_of(units_), !in_parts);
  outcome_.reset();
}

void Members::go_on_giving(bool rest) {
  if (!outcome_ || outcome_ == Outcome::is_complete) return;
  if (outcome_ == Outcome::differs) return begin_handover(false);
  transfer_->begin_part(memory_of(units_), rest);
  outcome_.reset();
  if (!transfer_->has_last_part()) return;
  const std::vector<Unit> units = state_.give(root_, needs_state_, true);  // and the rest once more
  if (!are_alike(units, units_)) begin_handover(false);
}

/// A step counts, for which all ranks have voted.
void Members::step_counts() {
  if (!transfer_ || outcome_ != Outcome::is_complete) return;
  needs_state_ = false;
  end_handover();
}

void Members::end_handover() {
  joins_.clear();
  transfer_.reset();
  outcome_.reset();
  units_.clear();
}

}  // namespace hora::elastic
