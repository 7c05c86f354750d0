// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr int kRanks = 3;

/// Different on each rank, of both signs, without equal values.
torch::Tensor values(int rank, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const auto length : shape) count *= length;
  return torch::sin(torch::arange(count, torch::kFloat64) * 1.7 + rank + 0.5).view(shape);
}

/// The weight of each element of a result in the loss of a rank.
torch::Tensor weights(int rank, const torch::Tensor& result) {
  return values(rank + 10, result.sizes().vec());
}

torch::Tensor leaf(int rank, const std::vector<std::int64_t>& shape) {
  return values(rank, shape).requires_grad_();
}

bool close(const torch::Tensor& a, const torch::Tensor& b) { return torch::allclose(a, b, 1e-10, 1e-12); }

torch::Tensor mean_of_weights(const torch::Tensor& result) {
  return (weights(0, result) + weights(1, result) + weights(2, result)) / kRanks;
}

/// The gradients of the sum of all ranks' losses, which one process computes from all ranks' tensors.
std::vector<torch::Tensor> reference(const std::function<torch::Tensor(const torch::Tensor&)>& reduce) {
  std::vector<torch::Tensor> leaves;
  for (int rank = 0; rank < kRanks; ++rank) leaves.push_back(leaf(rank, {4, 2}));
  const auto result = reduce(torch::stack(leaves));
  return torch::autograd::grad({(result * mean_of_weights(result) * kRanks).sum()}, leaves);
}

TEST(Gradients, OfAnAllreduceAreThoseOfTheSumOfAllLosses) {
  const std::vector<std::pair<ReduceOp, std::function<torch::Tensor(const torch::Tensor&)>>> ops = {
      {ReduceOp::average, [](const torch::Tensor& all) { return all.mean(0); }},
      {ReduceOp::sum, [](const torch::Tensor& all) { return all.sum(0); }},
      {ReduceOp::min, [](const torch::Tensor& all) { return all.amin(0); }},
      {ReduceOp::max, [](const torch::Tensor& all) { return all.amax(0); }},
      {ReduceOp::product, [](const torch::Tensor& all) { return all.prod(0); }}};
  for (const auto& [op, reduce] : ops) {
    const auto expected = reference([&](const torch::Tensor& all) { return 3 * reduce(2 * all); });
    run_local_job(kRanks, [&, op = op](Runtime& hora) {
      const auto r = static_cast<std::size_t>(hora.rank());
      const ReduceOptions options{.name = "x", .op = op, .prescale = 2, .postscale = 3};
      const auto x = leaf(hora.rank(), {4, 2});
      const auto result = allreduce(hora, x, options);
      (result * weights(hora.rank(), result)).sum().backward();
      EXPECT_TRUE(close(x.grad(), expected[r])) << name(op) << x.grad() << expected[r];

      const auto y = leaf(hora.rank(), {4, 2});
      const auto group = grouped_allreduce(hora, {y, torch::ones({2}, torch::kInt32)}, options);
      EXPECT_FALSE(group[1].requires_grad());
      (group[0] * weights(hora.rank(), group[0])).sum().backward();
      EXPECT_TRUE(close(y.grad(), expected[r])) << name(op);
    });
  }
}

TEST(Gradients, OfAProductWithAZero) {
  run_local_job(2, [](Runtime& hora) {
    const auto x =
        torch::tensor(hora.rank() == 0 ? std::vector<double>{0, 0, 2} : std::vector<double>{3, 0, 5})
            .requires_grad_();
    allreduce(hora, x, {.op = ReduceOp::product}).sum().backward();
    const auto expected = hora.rank() == 0 ? std::vector<double>{6, 0, 10} : std::vector<double>{0, 0, 4};
    EXPECT_TRUE(torch::equal(x.grad(), torch::tensor(expected))) << x.grad();
  });
}

TEST(Gradients, OfAnAllreduceMayBeDifferentiatedAgain) {
  run_local_job(2, [](Runtime& hora) {
    const auto x = torch::full({2}, hora.rank() + 1.0, torch::kFloat64).requires_grad_();
    const auto sum = allreduce(hora, x, {.name = "x", .op = ReduceOp::sum});
    const auto gradient = torch::autograd::grad({sum.pow(3).sum()}, {x}, {}, true, true)[0];
    EXPECT_TRUE(torch::equal(gradient.detach(), torch::full({2}, 2 * 27.0, torch::kFloat64)));
    gradient.sum().backward();  // 2 losses, each with 2 times 6 * sum
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 4 * 18.0, torch::kFloat64))) << x.grad();
  });
}

TEST(Gradients, OfAnAllgatherAreAveragedAndCutToTheRowsOfEachRank) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto x = leaf(hora.rank(), {hora.rank(), 2});
    const auto whole = allgather(hora, x, {.name = "x"});
    (whole * weights(hora.rank(), whole)).sum().backward();
    const std::int64_t begin = hora.rank() == 2 ? 1 : 0;
    EXPECT_TRUE(close(x.grad(), mean_of_weights(whole).narrow(0, begin, hora.rank())));

    const auto y = leaf(hora.rank(), {hora.rank(), 2});
    const auto unused = leaf(hora.rank(), {2});
    const auto group = grouped_allgather(hora, {unused, torch::ones({1}, torch::kInt32), y}, {.name = "g"});
    (group[2] * weights(hora.rank(), group[2])).sum().backward();
    EXPECT_TRUE(close(y.grad(), x.grad()));
    EXPECT_TRUE(torch::equal(unused.grad(), torch::zeros({2}, torch::kFloat64)));
  });
}

TEST(Gradients, OfABroadcastAreTheRoots) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto x = leaf(hora.rank(), {4});
    const auto result = broadcast(hora, x, 1);
    (result * weights(hora.rank(), result)).sum().backward();
    EXPECT_TRUE(close(x.grad(), mean_of_weights(result) * (hora.rank() == 1 ? 1 : 0)));
  });
}

TEST(Gradients, OfAnAlltoallTravelBack) {
  run_local_job(2, [](Runtime& hora) {
    const auto x = leaf(hora.rank(), {5, 2});
    const std::vector<std::int64_t> splits = {1, 2 + hora.rank()};  // the last rows are for nobody
    const auto received = alltoall(hora, x, splits, {.name = "x"}).output;
    (received * (hora.rank() + 1)).sum().backward();
    const auto expected =
        hora.rank() == 0 ? std::vector<double>{1, 2, 2, 0, 0} : std::vector<double>{1, 2, 2, 2, 0};
    EXPECT_TRUE(
        torch::equal(x.grad(), torch::tensor(expected).to(torch::kFloat64).unsqueeze(1).repeat({1, 2})))
        << x.grad();
  });
}

TEST(Gradients, OfAReducescatterAreGathered) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    run_local_job(kRanks, [op](Runtime& hora) {
      const double factor = (op == ReduceOp::sum ? kRanks : 1) * 2 * 3;
      const ReduceOptions options{.op = op, .prescale = 2, .postscale = 3};
      const auto shares = scattered_rows(4, kRanks);
      std::vector<torch::Tensor> parts;
      for (int rank = 0; rank < kRanks; ++rank)
        parts.push_back(values(rank + 10, {shares[static_cast<std::size_t>(rank)], 2}));
      const auto expected = torch::cat(parts) * factor;

      const auto x = leaf(hora.rank(), {4, 2});
      const auto own = reducescatter(hora, x, options);
      (own * weights(hora.rank(), own)).sum().backward();
      EXPECT_TRUE(close(x.grad(), expected));

      const auto y = leaf(hora.rank(), {4, 2});
      const auto group = grouped_reducescatter(hora, {torch::ones({3}, torch::kInt64), y}, options);
      (group[1] * weights(hora.rank(), group[1])).sum().backward();
      EXPECT_TRUE(close(y.grad(), expected));
    });
  }
}

TEST(Gradients, OfAProcessSetStayInIt) {
  run_local_job(kRanks, [](Runtime& hora) {
    const int set = hora.add_process_set({1, 2});
    if (hora.rank() == 0) return;
    const auto x = leaf(hora.rank(), {2, 2});
    const OperationOptions options{.process_set = set};
    const auto all = allgather(hora, x, options) + broadcast(hora, x, 2, options).repeat({2, 1}) +
                     allreduce(hora, x, {.op = ReduceOp::sum, .process_set = set}).repeat({2, 1}) +
                     alltoall(hora, x, {}, options).output.repeat({2, 1}) +
                     reducescatter(hora, x, {.process_set = set}).repeat({4, 1});
    (all * hora.rank()).sum().backward();
    // the mean and the sum of 1 and 2; the sender's own parts; and 4 rows' gradients of each rank's row
    const auto expected = 1.5 + (hora.rank() == 2 ? 2 * 1.5 : 0) + 2 * 3;
    const auto from_rows =
        torch::tensor({2.0 * 1 + 4.0 * 1, 2.0 * 2 + 4.0 * 2}, torch::kFloat64).unsqueeze(1);
    EXPECT_TRUE(close(x.grad(), (from_rows + expected).expand({2, 2}))) << x.grad();
  });
}

TEST(Gradients, AreNotMadeWhereNobodyWantsThem) {
  run_local_job(1, [](Runtime& hora) {
    const auto x = torch::ones({2}, torch::requires_grad());
    EXPECT_FALSE(allreduce(hora, x.detach()).requires_grad());
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(allreduce(hora, x).requires_grad());
    EXPECT_FALSE(grouped_allgather(hora, {x})[0].requires_grad());
  });
}

}  // namespace
}  // namespace hora
