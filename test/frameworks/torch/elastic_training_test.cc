// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, of a job that is not elastic. test/python/test_elastic_libtorch.py loses ranks.
#include <hora/torch/elastic.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace hora::elastic {
namespace {

using testing::HasSubstr;

/// Samples that are their own numbers, in batches that are lists of numbers.
class Numbers {
 public:
  explicit Numbers(std::optional<std::size_t> size) : size_(size) {}
  [[nodiscard]] std::optional<std::size_t> size() const { return size_; }
  std::vector<double> get_batch(const std::vector<std::size_t>& indices) {
    return {indices.begin(), indices.end()};
  }

 private:
  std::optional<std::size_t> size_;
};

/// The text of the error that a call throws.
std::string refusal(const std::function<void()>& call) { return thrown(call).message; }

/// The optimum of each microbatch is the mean of its numbers.
torch::Tensor loss_of(const torch::nn::Linear& model, const std::vector<double>& numbers) {
  const torch::Tensor targets = torch::tensor(numbers, torch::kFloat64);
  return (model->bias - targets).square().mean();
}

torch::nn::Linear make_model(Runtime& hora) {
  torch::nn::Linear model(1, 1);
  model->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  model->bias.fill_(hora.rank());
  return model;
}

using NumbersTraining = Training<Numbers>;

std::unique_ptr<NumbersTraining> make_training(Runtime& hora, torch::nn::Linear& model, std::size_t samples,
                                               TrainingOptions options) {
  return std::make_unique<NumbersTraining>(hora, *model, torch::optim::SGD(model->parameters(), 0.1),
                                           Numbers(samples), std::move(options));
}

/// Trains until so many steps count.
void train_until(NumbersTraining& training, const torch::nn::Linear& model, std::int64_t steps) {
  while (training.begin_epoch(100)) {
    while (const auto batch = training.next()) {
      training.backward(loss_of(model, *batch));
      if (training.step() && training.progress().steps == steps) return;
    }
  }
}

TEST(ElasticTraining, RefusesArgumentsThatMakeNoSense) {
  run_local_job(1, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto refused = [&](std::optional<std::size_t> samples, const TrainingOptions& options) {
      return refusal([&] {
        NumbersTraining(hora, *model, torch::optim::SGD(model->parameters(), 0.1), Numbers(samples), options);
      });
    };
    EXPECT_THAT(refused(9, {}), HasSubstr("batch must be 1 or more, not 0"));
    EXPECT_THAT(refused(9, {.batch = 4}),
                HasSubstr("microbatch must be 1 or more, and at most batch (4), not 0"));
    EXPECT_THAT(refused(9, {.batch = 4, .microbatch = 5}), HasSubstr("at most batch (4), not 5"));
    EXPECT_THAT(refused(9, {.batch = 4, .microbatch = 2, .clip_norm = -1}), HasSubstr("clip_norm must be 0"));
    EXPECT_THAT(refused(3, {.batch = 4, .microbatch = 2, .drop_last = true}),
                HasSubstr("an epoch has no step"));
    EXPECT_THAT(refused(0, {.batch = 4, .microbatch = 2}), HasSubstr("data has no samples"));
    EXPECT_THAT(refused({}, {.batch = 4, .microbatch = 2}), HasSubstr("data does not know its size"));
    EXPECT_THAT(refused(9, {.batch = 4, .microbatch = 2, .gradients = {.op = ReduceOp::adasum}}),
                HasSubstr("gradients.op must be average or sum, not adasum"));
    EXPECT_THAT(refused(9, {.batch = 4, .microbatch = 2, .gradients = {.backward_passes_per_step = 2}}),
                HasSubstr("backward_passes_per_step must be 1"));
    EXPECT_THAT(refused(9, {.batch = 4, .microbatch = 2, .audit = "/dev/null"}),
                HasSubstr("audit: /dev/null/"));
    EXPECT_THAT(refusal([&] {
                  NumbersTraining(hora, *model, torch::optim::LBFGS(model->parameters()), Numbers(9),
                                  {.batch = 4, .microbatch = 2});
                }),
                HasSubstr("LBFGS changes the model several times in a step"));
    torch::nn::Sequential synchronized(SyncBatchNorm(hora, torch::nn::BatchNormOptions(3)));
    EXPECT_THAT(refusal([&] {
                  NumbersTraining(hora, *synchronized, torch::optim::SGD(synchronized->parameters(), 0.1),
                                  Numbers(9), {.batch = 4, .microbatch = 2});
                }),
                HasSubstr("'0' is a SyncBatchNorm, which communicates in the forward pass"));
  });
}

TEST(ElasticTraining, SaysWhichCallIsMissing) {
  run_local_job(1, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 8, {.batch = 4, .microbatch = 2});
    EXPECT_THAT(refusal([&] { static_cast<void>(training->next()); }),
                HasSubstr("call training.begin_epoch() first"));
    ASSERT_TRUE(training->begin_epoch(1));
    EXPECT_THAT(refusal([&] { training->step(); }), HasSubstr("step() is called once for each microbatch"));
    const auto batch = training->next();
    EXPECT_THAT(refusal([&] { training->step(); }), HasSubstr("needs training.backward(loss), and then"));
    training->backward(loss_of(model, *batch));
    EXPECT_THAT(refusal([&] { training->backward(loss_of(model, *batch)); }),
                HasSubstr("backward() was called twice for one microbatch"));
    EXPECT_THAT(refusal([&] { static_cast<void>(training->next()); }), HasSubstr("and then training.step()"));
    EXPECT_FALSE(training->step()) << "the step has another microbatch";
    EXPECT_THAT(refusal([&] { training->retry([] {}); }), HasSubstr("retry() was called within a step"));
  });
}

TEST(ElasticTraining, TakesEachSampleOnce) {
  for (const int ranks : {1, 2, 3}) {
    std::mutex mutex;
    std::map<std::int64_t, std::multiset<double>> taken;  // by epoch
    run_local_job(ranks, [&](Runtime& hora) {
      torch::nn::Linear model = make_model(hora);
      const auto training = make_training(hora, model, 22, {.batch = 8, .microbatch = 2});
      while (training->begin_epoch(2)) {
        while (const auto batch = training->next()) {
          const auto before = training->progress();
          training->backward(loss_of(model, *batch));
          training->step();
          const std::lock_guard lock(mutex);
          taken[before.epoch].insert(batch->begin(), batch->end());
        }
      }
      EXPECT_EQ(training->progress(), (Progress{2, 0, 6}));
    });
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::multiset<double> all;
      for (int sample = 0; sample < 22; ++sample) all.insert(sample);
      EXPECT_EQ(taken[epoch], all);
    }
  }
}

TEST(ElasticTraining, GoesOnFromACheckpoint) {
  double whole = 0;
  run_local_job(2, [&](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 22, {.batch = 8, .microbatch = 2});
    train_until(*training, model, 5);
    if (hora.rank() == 0) whole = model->bias.item<double>();
  });
  run_local_job(2, [&](Runtime& hora) {
    std::stringstream file;
    {
      torch::nn::Linear model = make_model(hora);
      const auto training = make_training(hora, model, 22, {.batch = 8, .microbatch = 2});
      train_until(*training, model, 2);
      torch::serialize::OutputArchive archive;
      training->save(archive);
      archive.save_to(file);
    }
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 22, {.batch = 8, .microbatch = 2});
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    training->load(archive);
    EXPECT_EQ(training->progress(), (Progress{0, 16, 2}));
    train_until(*training, model, 5);
    EXPECT_EQ(model->bias.item<double>(), whole);
  });
}

TEST(ElasticTraining, RefusesACheckpointOfAnotherModel) {
  run_local_job(1, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 8, {.batch = 8, .microbatch = 8});
    std::stringstream file;
    torch::serialize::OutputArchive saved;
    training->save(saved);
    saved.save_to(file);
    torch::nn::Linear other(2, 1);
    other->to(torch::kFloat64);
    const auto further = make_training(hora, other, 8, {.batch = 8, .microbatch = 8});
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    EXPECT_THAT(refusal([&] { further->load(archive); }),
                HasSubstr("the checkpoint is of another model: 'weight' is float64[1,1] there, and "
                          "float64[1,2] here"));
  });
}

TEST(ElasticTraining, BringsTheSchedulerToTheStepOfACheckpoint) {
  run_local_job(1, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training =
        make_training(hora, model, 40, {.batch = 4, .microbatch = 4, .scheduler = [](auto& optimizer) {
                                          return std::make_unique<torch::optim::StepLR>(optimizer, 4, 0.5);
                                        }});
    const auto rate = [&] { return training->optimizer().param_groups().front().options().get_lr(); };
    train_until(*training, model, 2);
    std::stringstream file;
    torch::serialize::OutputArchive saved;
    training->save(saved);
    saved.save_to(file);
    train_until(*training, model, 7);
    EXPECT_DOUBLE_EQ(rate(), 0.05);
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    training->load(archive);
    EXPECT_DOUBLE_EQ(rate(), 0.1);
    train_until(*training, model, 4);
    EXPECT_DOUBLE_EQ(rate(), 0.1);
    train_until(*training, model, 5);
    EXPECT_DOUBLE_EQ(rate(), 0.05);
  });
}

/// Two modules with one weight.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    decoder->weight = encoder->weight;
    decoder->register_parameter("tied", encoder->weight);
  }
  torch::nn::Linear encoder = register_module("encoder", torch::nn::Linear(1, 1));
  torch::nn::Linear decoder = register_module("decoder", torch::nn::Linear(1, 1));
};

TEST(ElasticTraining, TrainsModulesThatShareAWeight) {
  run_local_job(2, [](Runtime& hora) {
    TiedImpl model;
    std::vector<torch::Tensor> parameters{model.encoder->weight, model.encoder->bias};
    NumbersTraining training(hora, model, torch::optim::SGD(parameters, 0.1), Numbers(8),
                             {.batch = 8, .microbatch = 4});
    ASSERT_TRUE(training.begin_epoch(1));
    const auto x = torch::tensor(training.next().value()).to(torch::kFloat32).view({-1, 1});
    training.backward(model.decoder->forward(model.encoder->forward(x)).square().mean());
    EXPECT_TRUE(training.step());
    check_replicas(hora, model.encoder->named_parameters());
  });
}

TEST(ElasticTraining, TakesAStepBackThatTheProgramLeaves) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 8, {.batch = 8, .microbatch = 2});
    ASSERT_TRUE(training->begin_epoch(2));
    training->backward(loss_of(model, training->next().value()));
    ASSERT_TRUE(training->begin_epoch(2));
    EXPECT_EQ(training->progress(), (Progress{1, 0, 0}));
    EXPECT_FALSE(model->bias.grad().defined());
    train_until(*training, model, 1);
    check_replicas(hora, model);
  });
}

TEST(ElasticTraining, SaysThatRanksMakeDifferentSteps) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto training = make_training(hora, model, 16, {.batch = 8, .microbatch = 4});
    train_until(*training, model, 1);
    if (hora.rank() == 1) ASSERT_TRUE(training->begin_epoch(2));  // which leaves out the second step
    training->backward(loss_of(model, training->next().value()));
    EXPECT_THAT(
        refusal([&] { training->step(); }),
        HasSubstr(
            "the ranks make different steps: up to sample 16 of epoch 0 and up to sample 8 of epoch 1"));
  });
}

TEST(ElasticTraining, RefusesRanksWithOtherArguments) {
  run_local_job(2, [](Runtime& hora) {
    torch::nn::Linear model = make_model(hora);
    const auto seed = static_cast<std::uint64_t>(hora.rank());
    EXPECT_THAT(refusal([&] { make_training(hora, model, 8, {.batch = 8, .microbatch = 2, .seed = seed}); }),
                HasSubstr("seed"));
  });
}

}  // namespace
}  // namespace hora::elastic
