// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_pass.h"

#include <hora/hora.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>
#include <map>
#include <mutex>

namespace hora {
namespace {

/// The passes under way, by autograd's number. `mutex` guards the map and the members of every pass.
struct Passes {
  std::mutex mutex;
  std::map<int, std::weak_ptr<GradientPass>> by_number;
};

Passes& passes() {
  static Passes all;
  return all;
}

}  // namespace

std::shared_ptr<const GradientPass> GradientPass::enter(RoundMaker& maker, Alive alive) {
  const int number = torch::autograd::get_current_graph_task_id();
  const std::lock_guard lock(passes().mutex);
  std::weak_ptr<GradientPass>& known = passes().by_number[number];
  std::shared_ptr<GradientPass> pass = known.lock();
  if (!pass) {
    known = pass = std::make_shared<GradientPass>(number);
    torch::autograd::Engine::get_default_engine().queue_callback([pass] { pass->end(); });
  }
  pass->makers_.emplace_back(&maker, std::move(alive));
  return pass;
}

void GradientPass::end() {
  std::vector<std::pair<RoundMaker*, Alive>> makers;
  {
    const std::lock_guard lock(passes().mutex);
    passes().by_number.erase(number_);
    makers.swap(makers_);
  }
  std::vector<RoundMaker*> due;
  for (const auto& [maker, alive] : makers) {
    if (*alive && maker->leave_pass(number_)) due.push_back(maker);
  }
  const BlockingScope blocking;
  for (RoundMaker* maker : due) maker->open_round();
  std::exception_ptr first;
  for (RoundMaker* maker : due) {
    try {
      maker->close_round();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hora
