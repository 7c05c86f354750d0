// SPDX-License-Identifier: Apache-2.0
// Several optimizers in one process, whose parameters one backward() reaches.
#include <hora/torch.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr int kRanks = 3;

/// A parameter of two elements, and the optimizer that it is alone in.
struct Model {
  Model(Runtime& hora, const std::string& name)
      : w(torch::zeros({2}, torch::requires_grad())),
        optimizer(hora, torch::optim::SGD({w}, 1.0), named(name), {.op = ReduceOp::sum, .name = name}) {}

  [[nodiscard]] NamedTensors named(const std::string& name) const {
    NamedTensors all;
    all.insert(name + ".w", w);
    return all;
  }
  [[nodiscard]] bool has_gradient(double value) const {
    return w.grad().defined() && torch::equal(w.grad(), torch::full_like(w, value));
  }

  torch::Tensor w;
  DistributedOptimizer optimizer;
};

/// A loss that reaches both parameters in one order (0) or the other (2), or only the second one (1).
torch::Tensor loss_of(int kind, const Model& one, const Model& two) {
  if (kind == 0) return one.w.sum() + two.w.sum();
  if (kind == 1) return two.w.sum();
  return two.w.sum() + one.w.sum();
}

TEST(SeveralOptimizers, MayBeReachedInAnotherOrderOnEachRankOrByAFewOnly) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    Model one(hora, "one");
    Model two(hora, "two");
    for (int step = 0; step < kRanks; ++step) {
      one.optimizer.zero_grad();
      two.optimizer.zero_grad();
      loss_of((hora.rank() + step) % kRanks, one, two).backward();
      one.optimizer.step();
      two.optimizer.step();
      EXPECT_TRUE(one.has_gradient(2.0)) << one.w.grad();
      EXPECT_TRUE(two.has_gradient(3.0)) << two.w.grad();
    }
  });
}

TEST(SeveralOptimizers, FailTogetherIfAPassOfBothFailsOnOneRank) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    Model one(hora, "one");
    Model two(hora, "two");
    auto late = torch::zeros({2}, torch::requires_grad());
    for (int step = 0; step < kRanks; ++step) {
      const bool fails = hora.rank() == step;
      const auto worked = late * 2;
      if (fails)
        worked.register_hook(
            [](const torch::Tensor& /*gradient*/) { throw std::runtime_error("a bad batch"); });
      const auto loss = worked.sum() + loss_of(hora.rank() == 1 ? 2 : 0, one, two);
      if (fails) {
        EXPECT_THROW(loss.backward(), std::runtime_error);
      } else {
        EXPECT_EQ(thrown([&] { loss.backward(); }).code, Code::rank_failed);
      }
      EXPECT_EQ(thrown([&] { one.optimizer.step(); }).code, Code::rank_failed);
      EXPECT_EQ(thrown([&] { two.optimizer.step(); }).code, Code::rank_failed);
      one.optimizer.zero_grad();
      two.optimizer.zero_grad();
      loss_of(0, one, two).backward();
      EXPECT_TRUE(one.has_gradient(3.0) && two.has_gradient(3.0));
    }
  });
}

TEST(SeveralOptimizers, EndAFailedPassTogetherThoughAnotherRankHasReachedOneOnly) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    Model one(hora, "one");
    Model two(hora, "two");
    auto late = torch::zeros({2}, torch::requires_grad());
    const auto worked = late * 2;
    if (hora.rank() == 0)
      worked.register_hook(
          [](const torch::Tensor& /*gradient*/) { throw std::runtime_error("a bad batch"); });
    const auto loss = worked.sum() + loss_of(hora.rank() == 1 ? 1 : 0, one, two);
    if (hora.rank() == 0) {
      EXPECT_THROW(loss.backward(), std::runtime_error);
    } else {
      EXPECT_EQ(thrown([&] { loss.backward(); }).code, Code::rank_failed);
    }
    if (hora.rank() == 1) {
      EXPECT_EQ(thrown([&] { one.optimizer.step(); }).code, Code::rank_failed);
    }
    one.optimizer.zero_grad();
    two.optimizer.zero_grad();
    loss_of(0, one, two).backward();
    EXPECT_TRUE(one.has_gradient(3.0) && two.has_gradient(3.0));
  });
}

}  // namespace
}  // namespace hora
