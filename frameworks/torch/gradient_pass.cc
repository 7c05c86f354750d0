// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_pass.h"

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

std::shared_ptr<GradientPass> GradientPass::enter(RoundMaker& maker, Alive alive) {
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
  pass->makers_.emplace_back(&maker, std::move(alive));
  return pass;
}

GradientPass::Makers GradientPass::take_makers() {
  const std::lock_guard lock(passes().mutex);
  return std::exchange(makers_, {});
}

void GradientPass::end() {
  std::vector<RoundMaker*> due;
  for (const auto& [maker, alive] : take_makers()) {
    if (*alive && maker->leave_pass(number_)) due.push_back(maker);
  }
  make_rounds(due, /*has_failed=*/false);
}

void GradientPass::fail() {
  std::vector<RoundMaker*> due;
  for (const auto& [maker, alive] : take_makers()) {
    if (*alive && maker->fail_pass(number_)) due.push_back(maker);
  }
  make_rounds(due, /*has_failed=*/true);
}

}  // namespace hora
