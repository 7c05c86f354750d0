// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(BroadcastParameters, GivesEveryRankTheRootsParametersAndBuffers) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::BatchNorm1d norm(4);
    const torch::NoGradGuard no_grad;
    norm->weight.fill_(hora.rank());
    norm->running_mean.fill_(hora.rank());
    norm->num_batches_tracked.fill_(hora.rank());
    broadcast_parameters(hora, *norm, 1);
    EXPECT_TRUE(torch::equal(norm->weight, torch::ones({4})));
    EXPECT_TRUE(torch::equal(norm->running_mean, torch::ones({4})));
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
  });
}

TEST(BroadcastParameters, TakesTensorsThatAreNotContiguous) {
  run_local_job(2, [](Runtime& hora) {
    const auto whole = torch::full({2, 3}, hora.rank());
    NamedTensors tensors;
    tensors.insert("t", whole.t());
    broadcast_parameters(hora, tensors, 1);
    EXPECT_TRUE(torch::equal(whole, torch::ones({2, 3}, torch::kInt64)));
  });
}

template <typename Optimizer, typename Options>
void round_trip(const Options& options) {
  run_local_job(2, [&](Runtime& hora) {
    auto parameter = torch::ones({3}, torch::requires_grad());
    Optimizer optimizer({parameter}, options);
    const auto step = [&] {
      optimizer.zero_grad();
      parameter.square().sum().backward();
      optimizer.step();
    };
    if (hora.rank() == 0) {
      step();
      step();
      optimizer.param_groups()[0].options().set_lr(0.125);
    }
    broadcast_optimizer_state(hora, optimizer, 0);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.125);
    {
      const torch::NoGradGuard no_grad;
      parameter.fill_(1);
    }
    step();
    const auto all = allgather(hora, parameter.detach().unsqueeze(0), {.name = "parameter"});
    EXPECT_TRUE(torch::equal(all[0], all[1])) << typeid(Optimizer).name();
  });
}

TEST(BroadcastOptimizerState, ReachesRanksThatHaveNone) {
  round_trip<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  round_trip<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  round_trip<torch::optim::Adam>(torch::optim::AdamOptions(0.1).amsgrad(true));
  round_trip<torch::optim::AdamW>(torch::optim::AdamWOptions(0.1));
  round_trip<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1).momentum(0.9).centered(true));
  round_trip<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.1));
}

}  // namespace
}  // namespace hora
