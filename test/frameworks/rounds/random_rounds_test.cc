// SPDX-License-Identifier: Apache-2.0
// Programs of random passes over several optimizers, on ranks whose gradients come in random orders.
#include "test/frameworks/rounds/simulated_optimizer.h"

#include <gtest/gtest.h>

namespace hora::rounds {
namespace {

constexpr int kSteps = 5;

int below(std::mt19937& random, int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); }

struct Shape {
  std::vector<int> units;  // of each parameter
  std::vector<int> kinds;
};

/// One addition to a gradient.
struct Addition {
  std::size_t optimizer;
  int parameter;
  long value;
};
using Pass = std::vector<Addition>;  // in the order in which a rank makes them

struct Step {
  enum class Fault { none, pass, gradient } fault = Fault::none;
  int failing_rank = 0;
  std::size_t failing_pass = 0;
  bool clear = true;                           // gradients are cleared before it
  std::vector<std::vector<Pass>> passes = {};  // of each rank
};

/// The program that all ranks run, each with its own values and orders.
struct Program {
  int ranks;
  bool overlaps;
  bool kinds_known;
  bool lasting;
  int passes_per_round;
  std::vector<Shape> optimizers = {};
  std::vector<Step> steps = {};
};

Shape random_shape(std::mt19937& random) {
  Shape shape;
  const int count = 1 + below(random, 4);
  for (int i = 0; i < count; ++i) {
    shape.units.push_back(below(random, 2) == 0 ? i : below(random, count));
    shape.kinds.push_back(below(random, 3) == 0 ? 1 : kDense);
  }
  return shape;
}

/// Reaches a random part of the parameters, of each optimizer at least one. Unless it `reaches_all`
/// optimizers, it reaches some of them only: the first ones, which are synchronised first. Two ranks of which
/// each reaches only what the other one does not would wait for each other.
Pass random_pass(std::mt19937& random, const std::vector<Shape>& optimizers, bool reaches_all) {
  Pass pass;
  const int some = below(random, static_cast<int>(optimizers.size()) + 1);
  const auto end = reaches_all ? optimizers.size() : static_cast<std::size_t>(some);
  for (std::size_t optimizer = 0; optimizer < end; ++optimizer) {
    const int count = static_cast<int>(optimizers[optimizer].units.size());
    const int certain = below(random, count);
    for (int parameter = 0; parameter < count; ++parameter) {
      if (parameter == certain || below(random, 10) < 6)
        pass.push_back({optimizer, parameter, 1 + below(random, 1000)});
    }
  }
  std::shuffle(pass.begin(), pass.end(), random);
  return pass;
}

Step random_step(std::mt19937& random, const Program& program, bool after_fault) {
  Step step;
  step.fault = below(random, 4) == 0 ? (below(random, 2) == 0 ? Step::Fault::pass : Step::Fault::gradient)
                                     : Step::Fault::none;
  step.failing_rank = below(random, program.ranks);
  step.clear = after_fault || below(random, 4) > 0;
  const int windows = 1 + below(random, 2);
  const int count = windows * program.passes_per_round;
  const bool reaches_all = windows > 1 || step.fault != Step::Fault::none;
  step.failing_pass = static_cast<std::size_t>(below(random, count));
  for (int rank = 0; rank < program.ranks; ++rank) {
    auto& own = step.passes.emplace_back();
    for (int i = 0; i < count; ++i) own.push_back(random_pass(random, program.optimizers, reaches_all));
  }
  return step;
}

Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  Program program{.ranks = 2 + below(random, 3),
                  .overlaps = below(random, 2) == 0,
                  .kinds_known = below(random, 2) == 0,
                  .lasting = below(random, 4) > 0,
                  .passes_per_round = 1 + below(random, 2)};
  const int optimizers = 1 + below(random, 3);
  for (int i = 0; i < optimizers; ++i) program.optimizers.push_back(random_shape(random));
  bool after_fault = true;
  for (int i = 0; i < kSteps; ++i) {
    program.steps.push_back(random_step(random, program, after_fault));
    after_fault = program.steps.back().fault != Step::Fault::none;
  }
  return program;
}

/// One rank that runs a program.
class Rank {
 public:
  Rank(const SimulatedRank& rank, const Program& program)
      : rank_(rank), program_(program), random_(static_cast<unsigned>(rank.rank)) {
    for (const Shape& shape : program.optimizers) {
      optimizers_.push_back(
          std::make_unique<SimulatedOptimizer>(rank, "o" + std::to_string(optimizers_.size()), shape.units,
                                               shape.kinds, program.kinds_known, program.passes_per_round));
      totals_.emplace_back(shape.units.size());
    }
  }

  void run() {
    for (const Step& step : program_.steps) {
      if (step.clear) clear();
      if (step.fault == Step::Fault::none) {
        make_passes(step);
        each_in_order([](SimulatedOptimizer& each) { each.synchronize(); });
        check(step);
      } else {
        EXPECT_TRUE(fails(step)) << "no error on rank " << rank_.rank;
        clear();
      }
      for (auto& optimizer : optimizers_) optimizer->state.end_step();
    }
    for (auto& optimizer : optimizers_) EXPECT_TRUE(optimizer->state.pending().empty());
  }

 private:
  void clear() {
    each_in_order([](SimulatedOptimizer& each) { each.zero_grad(); });
    for (auto& each : totals_) each.assign(each.size(), std::nullopt);
  }

  bool fails(const Step& step) {
    try {
      make_passes(step);
      each_in_order([](SimulatedOptimizer& each) { each.synchronize(); });
    } catch (const Failure& failure) {
      const bool own = rank_.rank == step.failing_rank;
      EXPECT_EQ(failure.elsewhere, !own) << failure.what();
      return true;
    }
    return false;
  }

  /// In the same order on all ranks, as with any collective.
  template <typename Do>
  void each_in_order(const Do& action) {
    for (auto& optimizer : optimizers_) action(*optimizer);
  }

  void make_passes(const Step& step) {
    const auto& passes = step.passes[static_cast<std::size_t>(rank_.rank)];
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const bool faulty = rank_.rank == step.failing_rank && i == step.failing_pass;
      if (faulty && step.fault == Step::Fault::gradient)
        optimizers_[passes[i].front().optimizer]->spoil_gradient(passes[i].front().parameter);
      make_pass(passes[i], faulty && step.fault == Step::Fault::pass);
    }
  }

  /// One backward(). If it fails, so do the rounds of all optimizers that it would have reached.
  void make_pass(const Pass& pass, bool fails) {
    const int number = ++passes_;
    std::vector<SimulatedOptimizer*> reached;
    const std::size_t end = fails ? random_() % pass.size() : pass.size();
    try {
      for (std::size_t i = 0; i < end; ++i) {
        auto& optimizer = *optimizers_[pass[i].optimizer];
        if (optimizer.add(pass[i].parameter, number, pass[i].value)) reached.push_back(&optimizer);
        rank_.yield();
      }
      if (fails) throw Failure("a bad batch", false);
    } catch (const Failure& failure) {
      for (auto& optimizer : optimizers_) optimizer->state.fail(failure.what());
      throw;
    }
    std::erase_if(reached, [&](SimulatedOptimizer* each) { return !each->state.leave(number); });
    make_rounds(reached);
  }

  /// Whether gradients are the sums over all ranks and passes since they were cleared.
  void check(const Step& step) {
    for (const auto& passes : step.passes) {
      for (const Pass& pass : passes) {
        for (const Addition& each : pass) {
          auto& total = totals_[each.optimizer][static_cast<std::size_t>(each.parameter)];
          total = total.value_or(0) + each.value;
        }
      }
    }
    for (std::size_t i = 0; i < optimizers_.size(); ++i) {
      for (int parameter = 0; parameter < optimizers_[i]->size(); ++parameter) {
        EXPECT_EQ(optimizers_[i]->gradient(parameter), totals_[i][static_cast<std::size_t>(parameter)])
            << "rank " << rank_.rank << ", optimizer " << i << ", parameter " << parameter;
      }
    }
  }

  const SimulatedRank& rank_;
  const Program& program_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<SimulatedOptimizer>> optimizers_;
  std::vector<std::vector<std::optional<long>>> totals_;
  int passes_ = 0;
};

TEST(RandomRounds, ReduceEachGradientOnceWhateverTheOrderAndFailOnAllRanksOrNone) {
  for (unsigned seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program = random_program(seed);
    Turns turns(program.ranks, seed);
    Exchange exchange(program.ranks);
    EXPECT_NO_THROW(turns.run([&](int number) {
      const SimulatedRank rank{number, turns, exchange, program.overlaps, program.lasting};
      Rank(rank, program).run();
    }));
    EXPECT_TRUE(HasFailure() || exchange.is_idle());
  }
}

}  // namespace
}  // namespace hora::rounds
