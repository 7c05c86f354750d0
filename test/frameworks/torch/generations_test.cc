// SPDX-License-Identifier: Apache-2.0
// A DistributedOptimizer in an elastic job, without a Training. Ranks are threads.
#include <hora/torch.h>

#include "test/support/elastic_launcher.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>

namespace hora {
namespace {

constexpr int kRanks = 3;

/// Nobody is taken for lost who is only slow.
elastic::ElasticPolicy patient() {
  return {.min_members = 1,
          .max_members = kRanks,
          .first_members = kRanks,
          .silence = std::chrono::minutes(10),
          .stop_timeout = std::chrono::minutes(10)};
}

/// A parameter whose gradient is 1 on each rank, and so is their average.
struct Model {
  explicit Model(Runtime& hora)
      : w(torch::zeros({5}, torch::requires_grad())), optimizer(hora, torch::optim::SGD({w}, 1.0), named()) {}

  [[nodiscard]] NamedTensors named() const {
    NamedTensors all;
    all.insert("w", w);
    return all;
  }
  [[nodiscard]] double value() const { return w.detach().mean().item<double>(); }

  torch::Tensor w;
  DistributedOptimizer optimizer;
};

/// Makes a step, in as many generations as that takes.
void make_step(Runtime& hora, Model& model) {
  for (bool counts = false; !counts;) {
    model.optimizer.zero_grad();
    try {
      model.w.sum().backward();
      counts = hora.commit();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::generation_ended) << error.what();
      hora.next_generation();
    }
  }
  model.optimizer.step();
}

TEST(OptimizerInAnElasticJob, GoesOnWithTheRanksThatAreLeft) {
  ElasticLauncher launcher(patient());
  run_ranks(kRanks, [&](int process) {
    Runtime hora(launcher.settings(process));
    Model model(hora);
    for (int step = 0; step < 10; ++step) {
      if (process == 1 && step == 5) {
        hora.shutdown("it is taken away");
        return launcher.die(process, "was taken away");
      }
      make_step(hora, model);
    }
    EXPECT_EQ(model.value(), -10);
    EXPECT_EQ(hora.size(), 2);
  });
}

TEST(OptimizerInAnElasticJob, MakesAStepThatCountsAlsoWhenTheRanksHaveChangedSince) {
  ElasticLauncher launcher(patient());
  std::barrier voted(kRanks);
  run_ranks(kRanks, [&](int process) {
    Runtime hora(launcher.settings(process));
    Model model(hora);
    model.w.sum().backward();
    EXPECT_TRUE(hora.commit());
    voted.arrive_and_wait();
    if (process == 1) {
      hora.shutdown("it is taken away");
      return launcher.die(process, "was taken away");
    }
    hora.next_generation();  // as `commit` does if the rank is lost meanwhile
    model.optimizer.step();
    EXPECT_EQ(model.value(), -1);
    make_step(hora, model);
    EXPECT_EQ(model.value(), -2);
  });
}

}  // namespace
}  // namespace hora
