// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hora {
namespace {

constexpr int kRanks = 2;

torch::Tensor parameter(double value = 1.0) { return torch::full({3}, value, torch::requires_grad()); }

NamedTensors named(const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.insert(name, tensor);
  return all;
}

DistributedOptimizer sgd(Runtime& hora, const NamedTensors& parameters, DistributedOptions options) {
  std::vector<torch::Tensor> values;
  for (const auto& item : parameters) values.push_back(item.value());
  return {hora, torch::optim::SGD(values, 1.0), parameters, std::move(options)};
}

/// The loss of a rank, which adds rank + 1 to each element of the gradient in one pass.
torch::Tensor loss(const Runtime& hora, const torch::Tensor& w) { return w.sum() * (hora.rank() + 1); }

bool is(const torch::Tensor& tensor, double value) {
  return tensor.defined() && torch::equal(tensor, torch::full_like(tensor, value));
}

TEST(DistributedOptimizer, AveragesGradientsAndSteps) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    for (const bool set_to_none : {true, false, true}) {
      optimizer.zero_grad(set_to_none);
      loss(hora, w).backward();
      optimizer.step();
      EXPECT_TRUE(is(w.grad(), 1.5));
    }
    EXPECT_TRUE(is(w.detach(), 1.0 - 3 * 1.5));
  });
}

TEST(DistributedOptimizer, TellsAllRanksWhetherGradientsAreFinite) {
  for (const auto op : {ReduceOp::average, ReduceOp::adasum}) {
    run_with_and_without_overlap(kRanks, [op](Runtime& hora) {
      auto w = parameter();
      auto v = parameter();
      auto optimizer = sgd(hora, named({{"w", w}, {"v", v}}), {.op = op, .name = "o", .check_finite = true});
      for (const double factor : {1.0, std::numeric_limits<double>::infinity(), 2.0, std::nan("")}) {
        optimizer.zero_grad();
        (loss(hora, w) * (hora.rank() == 1 ? factor : 1.0) + loss(hora, v)).backward();
        EXPECT_EQ(optimizer.gradients_finite(), std::isfinite(factor));
      }
    });
  }
}

TEST(DistributedOptimizer, LooksAtTheWholeGradientIfItWasAddedToAfterItWasReduced) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.op = ReduceOp::sum, .name = "o", .check_finite = true});
    const auto add = [&] {
      (w.sum() * (hora.rank() == 1 ? 3e38 : 0.0)).backward();  // two of these are more than float32 has
    };
    add();
    EXPECT_TRUE(optimizer.gradients_finite());
    add();
    EXPECT_FALSE(optimizer.gradients_finite());
    w.mutable_grad().reset();
    add();
    EXPECT_TRUE(optimizer.gradients_finite());
  });
}

TEST(DistributedOptimizer, TellsOfFiniteGradientsOnlyIfItWasAskedToLook) {
  run_local_job(1, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    EXPECT_THROW(static_cast<void>(optimizer.gradients_finite()), Error);
  });
}

TEST(DistributedOptimizer, ReducesOnceHoweverOftenItIsAsked) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.op = ReduceOp::sum, .name = "o"});
    loss(hora, w).backward();
    optimizer.synchronize();
    optimizer.synchronize();
    EXPECT_TRUE(is(w.grad(), 3.0));
    w.mutable_grad().mul_(0.5);  // clipping
    optimizer.step();
    EXPECT_TRUE(is(w.detach(), 1.0 - 1.5));
  });
}

TEST(DistributedOptimizer, AccumulatesWithAndWithoutNoSync) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    for (const bool guarded : {true, false}) {
      run_with_and_without_overlap(kRanks, [&](Runtime& hora) {
        auto w = parameter();
        auto optimizer = sgd(hora, named({{"w", w}}), {.op = op, .name = "o"});
        for (int step = 0; step < 2; ++step) {
          optimizer.zero_grad();
          if (guarded) {
            const auto quiet = optimizer.no_sync();
            loss(hora, w).backward();
          } else {
            loss(hora, w).backward();
          }
          loss(hora, w).backward();
          optimizer.step();
          EXPECT_TRUE(is(w.grad(), op == ReduceOp::sum ? 6.0 : 3.0)) << w.grad();
        }
      });
    }
  }
}

TEST(DistributedOptimizer, GradientsAreTheReducedOnesWhenBackwardReturns) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    loss(hora, w).backward();
    EXPECT_TRUE(is(w.grad(), 1.5));
    w.mutable_grad().mul_(0.5);
    optimizer.step();
    EXPECT_TRUE(is(w.detach(), 1.0 - 0.75));
  });
}

TEST(DistributedOptimizer, PassesOfOneStepAreReducedEachForItselfWhicheverParametersARankUses) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    run_with_and_without_overlap(kRanks, [&](Runtime& hora) {
      const double share = op == ReduceOp::sum ? 2.0 : 1.0;
      auto a = parameter();
      auto b = parameter();
      auto c = parameter();
      auto optimizer = sgd(hora, named({{"a", a}, {"b", b}, {"c", c}}), {.op = op, .name = "o"});
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        (hora.rank() == 0 ? a.sum() + b.sum() * 2 : a.sum()).backward();
        (hora.rank() == 1 ? b.sum() * 4 + c.sum() * 6 : b.sum() * 4).backward();
        optimizer.step();
        EXPECT_TRUE(is(a.grad(), share)) << a.grad();
        EXPECT_TRUE(is(b.grad(), share * 5)) << b.grad();
        EXPECT_TRUE(is(c.grad(), share * 3)) << c.grad();
      }
    });
  }
}

TEST(DistributedOptimizer, GradientsThatAreNotClearedAreAddedTo) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.op = ReduceOp::sum, .name = "o"});
    for (int step = 1; step <= 3; ++step) {
      loss(hora, w).backward();
      optimizer.step();
      EXPECT_TRUE(is(w.grad(), 3.0 * step)) << w.grad();
    }
  });
}

TEST(DistributedOptimizer, GradientsOfOnesOwnAreReducedAtTheStep) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    for (int step = 1; step <= 3; ++step) {
      if (step == 2) {
        w.mutable_grad().fill_(step * (hora.rank() + 1));
      } else {
        w.mutable_grad() = torch::full({3}, step * (hora.rank() + 1.0));
      }
      optimizer.step();
      EXPECT_TRUE(is(w.grad(), 1.5 * step)) << w.grad();
    }
  });
}

TEST(DistributedOptimizer, GradLeavesTheReducedGradientsAlone) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    loss(hora, w).backward();
    const auto own = torch::autograd::grad({loss(hora, w)}, {w});
    EXPECT_TRUE(is(own[0], hora.rank() + 1));
    EXPECT_TRUE(is(w.grad(), 1.5));
    optimizer.step();
    EXPECT_TRUE(is(w.grad(), 1.5));
  });
}

/// backward() of a and b, which fails on this rank when it comes to b, after a.
void fail_late(const torch::Tensor& a, const torch::Tensor& b) {
  const auto late = b * 2;
  late.register_hook([](const torch::Tensor& /*gradient*/) { throw std::runtime_error("a bad batch"); });
  EXPECT_THROW((late.sum() + a.sum()).backward(), std::runtime_error);
}

void expect_rank_1_failed(const std::function<void()>& call) {
  const Status status = thrown(call);
  EXPECT_EQ(status.code, Code::rank_failed) << status.message;
  EXPECT_NE(status.message.find("rank 1's backward() failed"), std::string::npos) << status.message;
}

TEST(DistributedOptimizer, ABackwardThatFailsOnOneRankFailsOnAllAndTheNextBatchIsAsIfNothingHadBeen) {
  enum class Then { clear, step, go_on };
  for (const auto then : {Then::clear, Then::step, Then::go_on}) {
    run_with_and_without_overlap(kRanks, [then](Runtime& hora) {
      auto a = parameter();
      auto b = parameter();
      auto optimizer = sgd(hora, named({{"a", a}, {"b", b}}), {.name = "o"});
      for (int step = 1; step <= 3; ++step) {
        if (hora.rank() == 1) {
          fail_late(a, b);
        } else {
          expect_rank_1_failed([&] { ((b * 2).sum() + a.sum()).backward(); });
          EXPECT_FALSE(a.grad().defined() || b.grad().defined());
        }
        if (then == Then::step) expect_rank_1_failed([&] { optimizer.step(); });
        if (then == Then::clear) optimizer.zero_grad();
        (a.sum() + b.sum() * (hora.rank() + 1)).backward();
        EXPECT_TRUE(is(a.grad(), 1.0)) << a.grad();
        EXPECT_TRUE(is(b.grad(), 1.5)) << b.grad();
        optimizer.step();
        optimizer.zero_grad();
        EXPECT_TRUE(is(a.detach(), 1.0 - step));
        EXPECT_TRUE(is(b.detach(), 1.0 - 1.5 * step));
      }
    });
  }
}

TEST(DistributedOptimizer, APassThatFailsAmongThoseThatAddUpSpoilsTheirRound) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto a = parameter();
    auto b = parameter();
    auto optimizer = sgd(hora, named({{"a", a}, {"b", b}}), {.name = "o", .backward_passes_per_step = 2});
    const auto pass = [&] { (a.sum() + b.sum()).backward(); };
    for (int step = 1; step <= 3; ++step) {
      if (hora.rank() == 1) {
        fail_late(a, b);
      } else {
        pass();
      }
      expect_rank_1_failed(pass);
      pass();
      pass();
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_TRUE(is(a.detach(), 1.0 - 2 * step)) << a;
    }
  });
}

TEST(DistributedOptimizer, AGradientThatCannotBeReducedFailsOnAllRanks) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto a = parameter();
    auto table = torch::ones({4, 3}, torch::requires_grad());
    auto optimizer = sgd(hora, named({{"a", a}, {"table", table}}), {.name = "o"});
    const bool sparse = hora.rank() == 1;
    const auto rows = torch::embedding(table, torch::zeros({1}, torch::kInt64), -1, false, sparse);
    const Status status = thrown([&] { (rows.sum() + a.sum()).backward(); });
    EXPECT_EQ(status.code, sparse ? Code::invalid_argument : Code::rank_failed) << status.message;
    EXPECT_NE(status.message.find("'table': its gradient is sparse"), std::string::npos) << status.message;
    optimizer.zero_grad();
    (a.sum() + table.sum()).backward();
    optimizer.step();
    EXPECT_TRUE(is(a.detach(), 0.0));
  });
}

TEST(DistributedOptimizer, RefusesGradientsThatHaveAGraphOfTheirOwn) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    const Status status =
        thrown([&] { w.square().sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true); });
    EXPECT_EQ(status.code, Code::invalid_argument) << status.message;
    EXPECT_NE(status.message.find("'w': backward(create_graph=true) cannot be reduced"), std::string::npos)
        << status.message;
    optimizer.zero_grad();
    const auto inner = torch::autograd::grad({w.square().sum()}, {w}, {}, true, true);
    inner[0].square().sum().backward();
    EXPECT_TRUE(is(w.grad(), 8.0)) << w.grad();
  });
}

TEST(DistributedOptimizer, RefusesAParameterThatIsInAnotherOne) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto v = parameter();
    auto first = std::make_unique<DistributedOptimizer>(sgd(hora, named({{"w", w}}), {.name = "o"}));
    EXPECT_THROW(sgd(hora, named({{"v", v}, {"w", w}}), {.name = "p"}), Error);
    v.sum().backward();  // the refused one has left nothing behind
    first.reset();
    auto second = sgd(hora, named({{"w", w}}), {.name = "p"});
  });
}

TEST(DistributedOptimizer, ALineSearchSeesTheLossOfAllRanks) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    const NamedTensors parameters = named({{"w", w}});
    DistributedOptimizer optimizer(
        hora,
        torch::optim::LBFGS({w}, torch::optim::LBFGSOptions(1.0).max_iter(8).line_search_fn("strong_wolfe")),
        parameters, {.name = "o"});
    const auto target = torch::arange(3) * (1.0 + 10.0 * hora.rank());
    for (int step = 0; step < 3; ++step) {
      optimizer.step([&] {
        optimizer.zero_grad();
        auto loss = ((w - target).pow(4).sum() + (w.exp() * (hora.rank() + 1)).sum());
        loss.backward();
        return loss;
      });
    }
    const auto all = allgather(hora, w.detach().unsqueeze(0), {.name = "w"});
    EXPECT_TRUE(torch::equal(all[0], all[1])) << all;
  });
}

TEST(DistributedOptimizer, TakesInParametersThatAreUnfrozenOrAddedLater) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto a = parameter();
    auto b = torch::ones({3});
    auto c = parameter();
    auto optimizer = sgd(hora, named({{"a", a}, {"b", b}}), {.name = "o"});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      if (step == 1) b.requires_grad_();
      if (step == 2) optimizer.optimizer().add_param_group(torch::optim::OptimizerParamGroup({c}));
      c.mutable_grad().reset();
      loss(hora, a + b + c).backward();
      EXPECT_TRUE(is(a.grad(), 1.5));
      EXPECT_TRUE(step < 1 || is(b.grad(), 1.5)) << b.grad();
      EXPECT_TRUE(step < 2 || is(c.grad(), 1.5)) << c.grad();
      optimizer.step();
    }
  });
}

TEST(DistributedOptimizer, ReducesWhatWasOnlyAccumulated) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    {
      const auto quiet = optimizer.no_sync();
      loss(hora, w).backward();
    }
    optimizer.step();
    EXPECT_TRUE(is(w.grad(), 1.5));
  });
}

TEST(DistributedOptimizer, UnusedParametersCountAsZerosOrStayWithoutGradient) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto used = parameter();
    auto by_one = parameter();
    auto by_none = parameter();
    auto optimizer = sgd(hora, named({{"a", used}, {"b", by_one}, {"c", by_none}}), {.name = "o"});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (hora.rank() == 0 ? used.sum() + by_one.sum() * 4 : used.sum()).backward();
      optimizer.step();
      EXPECT_TRUE(is(used.grad(), 1.0));
      EXPECT_TRUE(is(by_one.grad(), 2.0));
      EXPECT_FALSE(by_none.grad().defined());
    }
  });
}

TEST(DistributedOptimizer, CompressesOnTheWire) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    for (const Compression compression :
         {Compression::fp16, Compression::bf16, Compression::mxfp8_e4m3, Compression::mxfp8_e5m2}) {
      auto w = parameter();
      auto optimizer =
          sgd(hora, named({{"w", w}}),
              {.compression = compression, .name = std::to_string(static_cast<int>(compression))});
      (w.sum() * (1.0 + 0x1p-20)).backward();
      optimizer.step();
      EXPECT_TRUE(is(w.grad(), 1.0));
    }
  });
}

TEST(DistributedOptimizer, TwoMayHaveParametersOfOneName) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto a = parameter();
    auto b = parameter();
    auto first = sgd(hora, named({{"w", a}}), {.name = "generator"});
    auto second = sgd(hora, named({{"w", b}}), {.name = "discriminator"});
    (loss(hora, a) + loss(hora, b) * 2).backward();
    second.step();
    first.step();
    EXPECT_TRUE(is(a.grad(), 1.5));
    EXPECT_TRUE(is(b.grad(), 3.0));
  });
}

TEST(DistributedOptimizer, NamesTheParameterThatDiffersAndTheJobGoesOn) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = torch::ones({3 + hora.rank()}, torch::requires_grad());
    auto optimizer = sgd(hora, named({{"layer.weight", w}}), {.name = "o"});
    try {
      w.sum().backward();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "'gradient.o.layer.weight': tensor differs between ranks: float32[3] on rank 0, "
                   "float32[4] on rank 1");
    }
    barrier(hora);
  });
}

TEST(DistributedOptimizer, RefusesParametersWithoutAName) {
  run_local_job(1, [](Runtime& hora) {
    auto w = parameter();
    EXPECT_THROW(DistributedOptimizer(hora, torch::optim::SGD({w}, 1.0), NamedTensors()), Error);
    EXPECT_THROW(DistributedOptimizer(hora, torch::optim::SGD({w}, 1.0), named({{"a", w}, {"b", w}})), Error);
  });
}

TEST(DistributedOptimizer, RefusesSparseGradientsAndNoOptimizer) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    DistributedOptimizer optimizer(hora, torch::optim::SGD(table->parameters(), 1.0),
                                   table->named_parameters());
    const auto loss = table(torch::tensor({1})).sum();
    try {
      loss.backward();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "'weight': its gradient is sparse; set sparse_as_dense in the DistributedOptions");
    }
    EXPECT_THROW(DistributedOptimizer(hora, std::unique_ptr<torch::optim::Optimizer>(), NamedTensors()),
                 Error);
  });
}

TEST(DistributedOptimizer, ReducesSparseGradientsAsDenseOnes) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    {
      const torch::NoGradGuard no_grad;
      table->weight.zero_();
    }
    DistributedOptimizer optimizer(hora, torch::optim::SGD(table->parameters(), 1.0),
                                   table->named_parameters(), {.op = ReduceOp::sum, .sparse_as_dense = true});
    for (int step = 1; step <= 3; ++step) {
      optimizer.zero_grad();
      if (step != 2 || hora.rank() == 0) (table(torch::tensor({0, hora.rank() + 1})).sum()).backward();
      optimizer.step();
    }
    const auto expected = torch::tensor({-5.0F, -3.0F, -2.0F, 0.0F}).unsqueeze(1).expand({4, 2});
    EXPECT_TRUE(torch::equal(table->weight.detach(), expected)) << table->weight;
  });
}

TEST(DistributedOptimizer, ReducesAfterAsManyPassesAsItIsTold) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o", .backward_passes_per_step = 2});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      loss(hora, w).backward();
      EXPECT_TRUE(is(w.grad(), hora.rank() + 1));
      loss(hora, w).backward();
      EXPECT_TRUE(is(w.grad(), 3.0));
      optimizer.step();
    }
    optimizer.zero_grad();
    loss(hora, w).backward();  // a window that ends early
    optimizer.step();
    EXPECT_TRUE(is(w.grad(), 1.5));
    EXPECT_TRUE(is(w.detach(), 1.0 - 3.0 - 3.0 - 1.5));
    optimizer.zero_grad();
    loss(hora, w).backward();
    EXPECT_TRUE(is(w.grad(), hora.rank() + 1));  // the next one begins anew
    optimizer.synchronize();
  });
}

TEST(DistributedOptimizer, PartsOfTheParametersAreReducedTogether) {
  for (const int groups : {1, 2, 7}) {
    run_with_and_without_overlap(kRanks, [groups](Runtime& hora) {
      auto a = parameter();
      auto b = torch::ones({2}, torch::dtype(torch::kFloat64).requires_grad(true));
      auto c = parameter();
      auto late = parameter();
      auto optimizer = sgd(hora, named({{"a", a}, {"b", b}, {"c", c}}), {.name = "o", .groups = groups});
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        if (step == 2) optimizer.optimizer().add_param_group(torch::optim::OptimizerParamGroup({late}));
        late.mutable_grad().reset();
        (hora.rank() == 0 ? a.sum() * 2 + b.sum() * 4 : b.sum() * 2 + late.sum() * 2).backward();
        if (step % 2 == 1) (a.sum() * (hora.rank() + 1)).backward();
        optimizer.step();
        EXPECT_TRUE(is(a.grad(), step % 2 == 1 ? 2.5 : 1.0)) << a.grad();
        EXPECT_TRUE(is(b.grad(), 3.0)) << b.grad();
        EXPECT_FALSE(c.grad().defined());
        EXPECT_TRUE(step < 2 || is(late.grad(), 1.0)) << late.grad();
      }
    });
  }
}

TEST(DistributedOptimizer, OfPartsThatDifferNoGradientIsReduced) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto same = parameter();
    auto other = torch::ones({3 + hora.rank()}, torch::requires_grad());
    auto optimizer = sgd(hora, named({{"same", same}, {"other", other}}), {.name = "o", .groups = 1});
    EXPECT_THROW((loss(hora, same) + other.sum()).backward(), Error);
    EXPECT_TRUE(is(same.grad(), hora.rank() + 1));
    barrier(hora);
  });
}

TEST(DistributedOptimizer, ReducesOverAProcessSetAndIsThePlainOptimizerOutsideIt) {
  run_local_job(3, [](Runtime& hora) {
    const int set = hora.add_process_set({0, 2});
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.process_set = set});
    auto everywhere = parameter();
    auto second = sgd(hora, named({{"w", everywhere}}), {});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      second.zero_grad();
      (loss(hora, w) + loss(hora, everywhere)).backward();
      optimizer.step();
      second.step();
      EXPECT_TRUE(is(w.grad(), 2.0)) << w.grad();  // (1 + 3) / 2, and rank 1's own
      EXPECT_TRUE(is(everywhere.grad(), 2.0));
    }
    EXPECT_TRUE(is(w.detach(), 1.0 - 2 * 2.0));
  });
}

TEST(DistributedOptimizer, IsThePlainOptimizerOnARankThatIsAlone) {
  run_local_job(1, [](Runtime& hora) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    DistributedOptimizer optimizer(hora, torch::optim::SGD(table->parameters(), 1.0),
                                   table->named_parameters(), {.check_finite = true});
    const torch::Tensor before = table->weight.detach().clone();
    table(torch::tensor({1})).sum().backward();
    EXPECT_TRUE(table->weight.grad().is_sparse());
    EXPECT_TRUE(optimizer.gradients_finite());
    optimizer.step();
    EXPECT_TRUE(torch::equal(table->weight[1], before[1] - 1));
    const auto accumulate = torch::autograd::impl::grad_accumulator(table->weight);
    EXPECT_TRUE(accumulate->pre_hooks().empty() && accumulate->post_hooks().empty());
  });
}

TEST(DistributedOptimizer, DividesByAFactorBeforeTheSumAndMultipliesAfterIt) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o", .gradient_predivide_factor = 0x1p127});
    (w.sum() * 0x1p-126F).backward();
    EXPECT_TRUE(is(w.grad(), 0.0));  // less than the smallest float, before the sum
    auto v = parameter();
    auto other = sgd(hora, named({{"w", v}}), {.name = "p", .gradient_predivide_factor = 4});
    loss(hora, v).backward();
    EXPECT_TRUE(is(v.grad(), 1.5));
  });
}

TEST(DistributedOptimizer, RefusesOptionsThatMeanNothing) {
  run_local_job(1, [](Runtime& hora) {
    auto w = parameter();
    for (const DistributedOptions& options :
         std::vector<DistributedOptions>{{.op = ReduceOp::max},
                                         {.process_set = 3},
                                         {.backward_passes_per_step = 0},
                                         {.op = ReduceOp::sum, .gradient_predivide_factor = 2},
                                         {.gradient_predivide_factor = 0},
                                         {.groups = -1}}) {
      try {
        sgd(hora, named({{"w", w}}), options);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument);
      }
    }
    auto optimizer = sgd(hora, named({{"w", w}}), {});
  });
}

TEST(DistributedOptimizer, TakesItsHooksBack) {
  run_with_and_without_overlap(kRanks, [](Runtime& hora) {
    auto w = parameter();
    {
      auto optimizer = sgd(hora, named({{"w", w}}), {.name = "o"});
    }
    w.sum().backward();
    EXPECT_TRUE(is(w.grad(), 1.0));
  });
}

}  // namespace
}  // namespace hora
