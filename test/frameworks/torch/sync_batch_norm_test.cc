// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"

#include <gtest/gtest.h>

#include <numeric>
#include <sstream>

namespace hora {
namespace {

constexpr int kRanks = 3;
constexpr int kChannels = 4;
const std::vector<std::int64_t> kRows = {2, 0, 5};  // of each rank

using Options = torch::nn::BatchNormOptions;

torch::Tensor wave(std::vector<std::int64_t> shape, double speed) {
  const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return torch::sin(torch::arange(count, torch::kFloat64) * speed + speed).view(shape);
}

/// The outputs and gradients of some steps of a layer.
struct Outcome {
  std::vector<torch::Tensor> outputs;
  std::vector<torch::Tensor> input_gradients;
  torch::Tensor weight_gradient;
  torch::Tensor bias_gradient;
};

/// The batch of step `step`: [7, channels, rest...].
torch::Tensor batch(int step, const std::vector<std::int64_t>& rest) {
  std::vector<std::int64_t> shape = {7, kChannels};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return wave(shape, 0.7 + step) * 3 + 2;
}

template <typename Norm>
Outcome run(Norm& norm, const std::vector<std::int64_t>& rest,
            const std::function<torch::Tensor(const torch::Tensor&)>& own) {
  norm->to(torch::kFloat64);
  if (norm->options.affine()) {
    const torch::NoGradGuard no_grad;
    norm->weight.copy_(wave({kChannels}, 0.3) + 2);
    norm->bias.copy_(wave({kChannels}, 0.9));
  }
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const auto x = own(batch(step, rest)).clone().requires_grad_();
    const auto y = norm->forward(x);
    (y.pow(2) * own(wave(batch(step, rest).sizes().vec(), 1.3))).sum().backward();
    outcome.outputs.push_back(y.detach());
    outcome.input_gradients.push_back(x.grad());
  }
  if (norm->options.affine()) {
    outcome.weight_gradient = norm->weight.grad();
    outcome.bias_gradient = norm->bias.grad();
  }
  return outcome;
}

bool close(const torch::Tensor& a, const torch::Tensor& b) { return torch::allclose(a, b, 1e-9, 1e-11); }

template <typename Reference>
void compare(const Options& options, const std::vector<std::int64_t>& rest) {
  Reference reference(options);
  const Outcome whole = run(reference, rest, [](const torch::Tensor& all) { return all; });
  run_local_job(kRanks, [&](Runtime& hora) {
    const auto r = static_cast<std::size_t>(hora.rank());
    const auto own = [&](const torch::Tensor& all) { return all.split_with_sizes(kRows)[r]; };
    SyncBatchNorm norm(hora, options);
    const Outcome mine = run(norm, rest, own);
    for (std::size_t step = 0; step < whole.outputs.size(); ++step) {
      EXPECT_TRUE(close(mine.outputs[step], own(whole.outputs[step])));
      EXPECT_TRUE(close(mine.input_gradients[step], own(whole.input_gradients[step])));
    }
    if (options.affine()) {
      EXPECT_TRUE(close(allreduce(hora, mine.weight_gradient, {.op = ReduceOp::sum}), whole.weight_gradient));
      EXPECT_TRUE(close(allreduce(hora, mine.bias_gradient, {.op = ReduceOp::sum}), whole.bias_gradient));
    }
    if (options.track_running_stats()) {
      EXPECT_TRUE(close(norm->running_mean, reference->running_mean));
      EXPECT_TRUE(close(norm->running_var, reference->running_var));
      EXPECT_EQ(norm->num_batches_tracked.template item<int>(), 3);
    }
    norm->eval();
    if (options.track_running_stats() && hora.rank() == 2) {  // alone: nothing is sent
      reference->eval();
      EXPECT_TRUE(close(norm->forward(batch(9, rest)), reference->forward(batch(9, rest))));
    }
  });
}

TEST(SyncBatchNorm, EqualsOneProcessWithTheWholeBatch) {
  compare<torch::nn::BatchNorm1d>(Options(kChannels), {});
  compare<torch::nn::BatchNorm1d>(Options(kChannels).momentum(0.3).eps(0.1), {3});
  compare<torch::nn::BatchNorm2d>(Options(kChannels).momentum(std::nullopt), {3, 2});
  compare<torch::nn::BatchNorm2d>(Options(kChannels).affine(false), {3, 2});
  compare<torch::nn::BatchNorm3d>(Options(kChannels).track_running_stats(false), {2, 3, 2});
}

TEST(SyncBatchNorm, IsThatOfAProcessSet) {
  run_local_job(kRanks, [](Runtime& hora) {
    const int set = hora.add_process_set({0, 2});
    if (hora.rank() == 1) return;
    SyncBatchNorm norm(hora, Options(2), set);
    const auto y = norm(torch::full({1, 2}, static_cast<float>(hora.rank()) + 1.0F));
    EXPECT_TRUE(torch::allclose(y, torch::full({1, 2}, static_cast<float>(hora.rank()) - 1.0F), 1e-4)) << y;
    EXPECT_TRUE(torch::allclose(norm->running_mean, torch::full({2}, 0.2)));
  });
}

TEST(SyncBatchNorm, StandsInASequenceAndTakesHalfPrecision) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::Sequential net(torch::nn::Linear(3, kChannels), SyncBatchNorm(hora, Options(kChannels)));
    EXPECT_EQ(net->forward(torch::ones({2, 3}) * hora.rank()).sizes(), (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(net->parameters().size(), 4u);
    std::ostringstream text;
    text << net;
    EXPECT_NE(text.str().find("hora::SyncBatchNorm(4, eps=1e-05, momentum=0.1"), std::string::npos)
        << text.str();
    SyncBatchNorm norm(hora, Options(kChannels));
    const auto x = wave({3, kChannels}, 0.4 + hora.rank()).to(torch::kBFloat16).requires_grad_();
    const auto y = norm(x);
    y.sum().backward();
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
    EXPECT_EQ(norm->bias.grad().sum().item<double>(), 3 * kChannels);
  });
}

TEST(SyncBatchNorm, RefusesWhatItCannotNormalise) {
  run_local_job(2, [](Runtime& hora) {
    SyncBatchNorm norm(hora, Options(kChannels));
    EXPECT_THROW(norm(torch::ones({kChannels})), Error);
    EXPECT_THROW(norm(torch::ones({2, kChannels + 1})), Error);
    EXPECT_THROW(norm(torch::ones({2, kChannels}, torch::kInt32)), Error);
    EXPECT_THROW(norm(torch::ones({hora.rank(), kChannels})), Error);  // one value for each channel
    const auto x = wave({2, kChannels}, 0.4 + hora.rank()).requires_grad_();
    const auto gradient = torch::autograd::grad({norm(x).pow(2).sum()}, {x}, {}, true, true)[0];
    EXPECT_THROW(gradient.sum().backward(), Error);
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
  });
}

TEST(SyncBatchNorm, ARankThatHasJoinedCountsAsAnEmptyBatch) {
  run_local_job(2, [](Runtime& hora) {
    SyncBatchNorm norm(hora, Options(1));
    if (hora.rank() == 0) {
      const auto x = torch::tensor({1.0F, 3.0F}).unsqueeze(1).requires_grad_();
      const auto y = norm(x);
      y.pow(3).sum().backward();
      EXPECT_TRUE(torch::allclose(y.detach(), torch::tensor({-1.0F, 1.0F}).unsqueeze(1), 1e-4));
    }
    EXPECT_EQ(hora.join(), 0);
  });
}

}  // namespace
}  // namespace hora
