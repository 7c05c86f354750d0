// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_pass.h"

#include <hora/hora.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>
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

/// Opens all rounds, then closes all. Throws the first error for which `counts` is true.
template <typename Counts>
void make_rounds(const std::vector<RoundMaker*>& makers, const Counts& counts) {
  const BlockingScope blocking;
  for (RoundMaker* maker : makers) maker->open_round();
  std::exception_ptr first;
  for (RoundMaker* maker : makers) {
    try {
      maker->close_round();
    } catch (const Error& error) {
      if (!first && counts(error)) first = std::current_exception();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

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
  make_rounds(due, [](const Error& /*error*/) { return true; });
}

void GradientPass::fail() {
  std::vector<RoundMaker*> due;
  for (const auto& [maker, alive] : take_makers()) {
    if (*alive && maker->fail_pass(number_)) due.push_back(maker);
  }
  make_rounds(due, [](const Error& error) { return error.code() != Code::rank_failed; });
}

}  // namespace hora
