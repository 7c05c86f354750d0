// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr int kSteps = 4;
constexpr double kMomentum = 0.5;
constexpr double kLearningRate = 0.25;

torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b) {
  const auto dot = (a * b).sum();
  const auto share = [&](const torch::Tensor& x) {
    const auto square = (x * x).sum();
    return square.item<double>() == 0 ? 1.0 : 1 - (dot / (2 * square)).item<double>();
  };
  return share(a) * a + share(b) * b;
}

/// The slope of rank r's loss for a parameter in a step.
torch::Tensor slope(int rank, int step, std::int64_t size) {
  return torch::sin(torch::arange(size, torch::kFloat64) * (rank + 1.5) + step);
}

torch::Tensor parameter(std::int64_t size) {
  return torch::ones({size}, torch::dtype(torch::kFloat64).requires_grad(true));
}

NamedTensors named(const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.insert(name, tensor);
  return all;
}

/// The result that one process computes for all ranks: momentum is each rank's own, the parameter is shared.
torch::Tensor reference(int ranks, std::int64_t size) {
  auto value = torch::ones({size}, torch::kFloat64);
  std::vector<torch::Tensor> momenta(static_cast<std::size_t>(ranks));
  for (int step = 0; step < kSteps; ++step) {
    torch::Tensor combined;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& momentum = momenta[static_cast<std::size_t>(rank)];
      const auto gradient = 2 * slope(rank, step, size);  // of two passes
      momentum = momentum.defined() ? kMomentum * momentum + gradient : gradient;
      const auto delta = -kLearningRate * momentum;
      combined = combined.defined() ? adasum(combined, delta) : delta;
    }
    value = value + combined;
  }
  return value;
}

TEST(AdasumOptimizer, CombinesWhatEachRanksStepChanges) {
  for (const int ranks : {1, 2, 3}) {
    run_local_job(ranks, [ranks](Runtime& hora) {
      auto w = parameter(5);
      auto v = parameter(3);
      DistributedOptimizer optimizer(
          hora, torch::optim::SGD({w, v}, torch::optim::SGDOptions(kLearningRate).momentum(kMomentum)),
          named({{"w", w}, {"v", v}}), {.op = ReduceOp::adasum});
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        for (int pass = 0; pass < 2; ++pass)
          ((w * slope(hora.rank(), step, 5)).sum() + (v * slope(hora.rank(), step, 3)).sum()).backward();
        EXPECT_TRUE(torch::equal(w.grad(), 2 * slope(hora.rank(), step, 5)));  // this rank's own
        optimizer.step();
      }
      EXPECT_TRUE(torch::allclose(w.detach(), reference(ranks, 5), 1e-10, 1e-12));
      EXPECT_TRUE(torch::allclose(v.detach(), reference(ranks, 3), 1e-10, 1e-12));
    });
  }
}

TEST(AdasumOptimizer, CountsUnusedParametersAsUnchangedAndTakesSparseGradients) {
  run_local_job(2, [](Runtime& hora) {
    auto w = parameter(2);
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(3, 2).sparse(true));
    {
      const torch::NoGradGuard no_grad;
      table->weight.zero_();
    }
    DistributedOptimizer optimizer(hora, torch::optim::SGD({w, table->weight}, 1.0),
                                   named({{"w", w}, {"table", table->weight}}), {.op = ReduceOp::adasum});
    auto loss = table(torch::tensor({hora.rank()})).sum();  // orthogonal: the sum
    if (hora.rank() == 0) loss = loss + w.sum();
    loss.backward();
    optimizer.step();
    EXPECT_TRUE(torch::equal(w.detach(), torch::zeros({2}, torch::kFloat64)));
    EXPECT_TRUE(torch::equal(table->weight.detach().sum(1), torch::tensor({-2.0F, -2.0F, 0.0F})));
  });
}

TEST(AdasumOptimizer, StepsWithAClosureEachForItself) {
  run_local_job(2, [](Runtime& hora) {
    auto w = parameter(2);
    DistributedOptimizer optimizer(
        hora, torch::optim::LBFGS({w}, torch::optim::LBFGSOptions(1.0).max_iter(3 + hora.rank())),
        named({{"w", w}}), {.op = ReduceOp::adasum});
    const auto loss = optimizer.step([&] {
      optimizer.zero_grad();
      auto value = ((w - 3).pow(4).sum() * (hora.rank() + 1));
      value.backward();
      return value;
    });
    EXPECT_EQ(loss.item<double>(), 32 * (hora.rank() + 1));
    const auto all = allgather(hora, w.detach().unsqueeze(0));
    EXPECT_TRUE(torch::equal(all[0], all[1])) << all;
    EXPECT_GT(w.detach().min().item<double>(), 1.0);
  });
}

TEST(AdasumOptimizer, LeavesTheParametersAsTheyWereIfTheRanksDisagree) {
  run_local_job(2, [](Runtime& hora) {
    auto w = parameter(2 + hora.rank());
    DistributedOptimizer optimizer(hora, torch::optim::SGD({w}, 1.0), named({{"layer.w", w}}),
                                   {.op = ReduceOp::adasum, .name = "o"});
    w.sum().backward();
    try {
      optimizer.step();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("'delta.o.layer.w'"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(torch::equal(w.detach(), torch::ones({2 + hora.rank()}, torch::kFloat64)));
    EXPECT_THROW(optimizer.step([]() -> torch::Tensor { throw std::runtime_error("a bad batch"); }),
                 std::runtime_error);
    barrier(hora);
    EXPECT_THROW(DistributedOptimizer(hora, torch::optim::SGD({w}, 1.0), named({{"w", w}})), Error);
  });
}

}  // namespace
}  // namespace hora
