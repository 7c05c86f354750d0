// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace hora {
namespace {

TEST(BroadcastParameters, GivesEveryRankTheRootsParametersAndBuffers) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::BatchNorm1d norm(4);
    const torch::NoGradGuard no_grad;
    norm->weight.fill_(hora.rank());
    norm->running_mean.fill_(hora.rank());
    norm->num_batches_tracked.fill_(hora.rank());
    broadcast_parameters(hora, norm, 1);
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

TEST(CheckReplicas, NamesTheTensorsAndTheRanksThatDifferInAnyBit) {
  run_local_job(3, [](Runtime& hora) {
    torch::nn::BatchNorm1d norm(5);
    const torch::NoGradGuard no_grad;
    norm->running_mean.fill_(hora.rank());
    check_replicas(hora, norm);
    if (hora.rank() == 2) norm->bias[4] = -0.0F;
    const Status why = thrown([&] { check_replicas(hora, norm); });
    EXPECT_EQ(why.code, Code::mismatch);
    EXPECT_THAT(why.message, testing::HasSubstr("the replicas differ between ranks:\n  "));
    EXPECT_THAT(why.message, testing::HasSubstr("'bias' is float32[5] with the checksum "));
    EXPECT_THAT(why.message, testing::HasSubstr("rank 2"));
    EXPECT_THAT(why.message, testing::Not(testing::HasSubstr("'weight'")));
    EXPECT_EQ(thrown([&] { check_replicas(hora, norm->named_buffers()); }).code, Code::mismatch);
  });
}

TEST(BroadcastObject, TakesASerialiserOfTheUsers) {
  run_local_job(2, [](Runtime& hora) {
    const auto save = [](const std::vector<int>& numbers) {
      std::ostringstream stream;
      std::copy(numbers.begin(), numbers.end(), std::ostream_iterator<int>(stream, " "));
      return stream.str();
    };
    const auto load = [](const std::string& bytes) {
      std::istringstream stream(bytes);
      return std::vector<int>(std::istream_iterator<int>(stream), {});
    };
    for (const std::vector<int>& numbers : {std::vector<int>{3, 1, 4}, std::vector<int>{}}) {
      const auto mine = hora.rank() == 1 ? numbers : std::vector<int>{7};
      EXPECT_EQ(broadcast_object(hora, mine, 1, save, load), numbers);
      EXPECT_EQ(broadcast_object(hora, mine, 1, save, load, {.name = "numbers"}), numbers);
    }
  });
}

TEST(BroadcastObject, FailsOnAllRanksWithWhatTheSerialiserThrewAndTheJobGoesOn) {
  run_local_job(2, [](Runtime& hora) {
    const auto refuse = [](int) -> std::string { throw std::runtime_error("not serialisable"); };
    const auto load = [](const std::string&) { return 0; };
    if (hora.rank() == 0) {
      EXPECT_THROW(broadcast_object(hora, 5, 0, refuse, load), std::runtime_error);
    } else {
      const Status why = thrown([&] { broadcast_object(hora, 5, 0, refuse, load); });
      EXPECT_EQ(why.code, Code::rank_failed);
      EXPECT_THAT(why.message,
                  testing::HasSubstr("rank 0's object could not be made into bytes: not serialisable"));
    }
    EXPECT_EQ(allreduce(hora, 1, ReduceOp::sum), 2);
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
