// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_pass.h"

#include "frameworks/torch/text.h"

#include <hora/hora.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace hora {
namespace {

/// The passes under way, by autograd's number. `mutex` guards the map and the members of every pass.
struct Passes {
  std::mutex mutex;
  std::map<int, std::weak_ptr<GradientPass>> by_number;

  void forget_those_that_are_over() {
    std::erase_if(by_number, [](const auto& each) {
      const auto pass = each.second.lock();
      return !pass || pass->is_over();
    });
  }
};

Passes& passes() {
  static Passes all;
  return all;
}

/// The mutexes of all makers, in the order of their addresses: two rounds cannot wait for each other's.
std::vector<std::unique_lock<std::mutex>> lock_all(std::vector<RoundMaker*> makers) {
  std::sort(makers.begin(), makers.end(), [](RoundMaker* left, RoundMaker* right) {
    return std::less<>()(&left->mutex(), &right->mutex());
  });
  std::vector<std::unique_lock<std::mutex>> locks;
  for (RoundMaker* maker : makers) locks.emplace_back(maker->mutex());
  return locks;
}

/// Tells the round of the exception that is being handled. Returns whether it comes from another rank only,
/// which had no gradients.
bool report(rounds::Round& round) {
  try {
    throw;
  } catch (const Error& error) {
    const bool elsewhere = error.code() == Code::rank_failed;
    round.failed(error.what(), elsewhere);
    return elsewhere;
  } catch (const std::exception& error) {
    round.failed(error.what(), false);
    return false;
  }
}

}  // namespace

void make_rounds(const std::vector<RoundMaker*>& makers, bool has_failed) {
  const BlockingScope blocking;
  const auto locks = lock_all(makers);
  std::vector<rounds::ReducerState*> states;
  for (RoundMaker* maker : makers) states.push_back(&maker->state());
  rounds::Round round(states);
  std::exception_ptr first;
  while (const auto action = round.next()) {
    try {
      makers[action->reducer]->carry_out(*action);
    } catch (...) {
      const bool elsewhere = report(round);
      if (!first && !(has_failed && elsewhere)) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::shared_ptr<GradientPass> GradientPass::enter(RoundMaker& maker) {
  const int number = torch::autograd::get_current_graph_task_id();
  const std::lock_guard lock(passes().mutex);
  passes().forget_those_that_are_over();
  std::shared_ptr<GradientPass> pass = passes().by_number[number].lock();
  if (!pass) {
    const auto running = std::make_shared<int>(number);
    pass = std::make_shared<GradientPass>(number, running);
    torch::autograd::Engine::get_default_engine().queue_callback([pass, running] { pass->end(); });
    passes().by_number[number] = pass;
  }
  pass->makers_.emplace_back(&maker, maker.alive());
  return pass;
}

void GradientPass::end() {
  const auto leave = [this](rounds::ReducerState& state) { return state.leave(number_); };
  make_rounds(all_for_which(leave), /*has_failed=*/false);
}

void GradientPass::fail() {
  const auto fail = [this](rounds::ReducerState& state) {
    return state.pass() == number_ && state.fail("backward() failed");
  };
  make_rounds(all_for_which(fail), /*has_failed=*/true);
}

std::vector<RoundMaker*> GradientPass::all_for_which(const IsDue& is_due) {
  std::vector<std::pair<RoundMaker*, Alive>> makers;
  {
    const std::lock_guard lock(passes().mutex);
    makers = std::exchange(makers_, {});
  }
  std::vector<RoundMaker*> due;
  for (const auto& [maker, alive] : makers) {
    if (!*alive) continue;
    const std::lock_guard lock(maker->mutex());
    if (is_due(maker->state())) due.push_back(maker);
  }
  return due;
}

void RoundMaker::run_hook(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    state_.note_failure(text_of("backward() failed: {}", error.what()));
    throw;
  }
}

void RoundMaker::begin_pass(int pass, bool overlaps, std::unique_lock<std::mutex>& lock) {
  while (state_.pass() != rounds::ReducerState::kNoPass && state_.pass() != pass &&
         pass_->is_over()) {  // else this pass is within that one
    const auto failed = pass_;
    lock.unlock();
    failed->fail();
    lock.lock();
  }
  if (state_.begin(pass, overlaps)) pass_ = GradientPass::enter(*this);
}

void RoundMaker::end_failed_pass() {
  std::shared_ptr<GradientPass> failed;
  {
    const std::lock_guard lock(mutex_);
    if (state_.pass() != rounds::ReducerState::kNoPass) failed = pass_;
  }
  if (failed) failed->fail();
}

void RoundMaker::finish() {
  end_failed_pass();
  {
    const std::lock_guard lock(mutex_);
    if (!state_.abandon()) return;
  }
  make_rounds({this}, /*has_failed=*/true);
}

}  // namespace hora
