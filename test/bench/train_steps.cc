// SPDX-License-Identifier: Apache-2.0
// hrun -np N train_steps ITERATIONS FOLDER: the time that a DistributedOptimizer adds to steps of training
// small models on the CPU, the twin of plan/ranks/work_wrapper.py. Steps with it and without it take turns.
// Each rank writes FOLDER/rank<k>.json: when each step began and ended, by the clock of the machine.
#include <hora/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iomanip>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace nn = torch::nn;

constexpr int kRounds = 5;
constexpr int kWarmUp = 2;

struct Task {
  nn::Sequential model;
  torch::Tensor inputs;
  torch::Tensor labels;
};

/// Three convolutions of 32 x 32 pixels.
Task cnn() {
  nn::Sequential model;
  std::int64_t channels = 3;
  for (const std::int64_t wider : {16, 32, 64}) {
    model->push_back(nn::Conv2d(nn::Conv2dOptions(channels, wider, 3).padding(1)));
    model->push_back(nn::ReLU());
    model->push_back(nn::MaxPool2d(2));
    channels = wider;
  }
  model->push_back(nn::Flatten());
  model->push_back(nn::Linear(64 * 4 * 4, 10));
  return {model, torch::randn({32, 3, 32, 32}), torch::randint(10, {32})};
}

/// Six layers of 1024: few operations for each gradient.
Task mlp() {
  nn::Sequential model;
  for (int layer = 0; layer < 6; ++layer) {
    model->push_back(nn::Linear(1024, 1024));
    model->push_back(nn::ReLU());
  }
  model->push_back(nn::Linear(1024, 10));
  return {model, torch::randn({128, 1024}), torch::randint(10, {128})};
}

using Spans = std::vector<std::pair<double, double>>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void meet(hora::Runtime& hora) {
  hora::Entry entry;
  entry.operation = hora::Operation::barrier;
  entry.name = "steps.barrier";
  hora.submit(std::move(entry)).wait();
}

template <typename Optimizer>
void time_steps(hora::Runtime& hora, Task& task, Optimizer& optimizer, int iterations, Spans& spans) {
  for (int i = -kWarmUp; i < iterations; ++i) {
    meet(hora);
    const double begin = now();
    optimizer.zero_grad();
    nn::functional::cross_entropy(task.model->forward(task.inputs), task.labels).backward();
    optimizer.step();
    const double end = now();
    meet(hora);
    if (i >= 0) spans.emplace_back(begin, end);
  }
}

torch::optim::SGD plain_sgd(const Task& task) {
  return torch::optim::SGD(task.model->parameters(), torch::optim::SGDOptions(1e-3));
}

std::map<std::string, Spans> measure(hora::Runtime& hora, int iterations) {
  const std::map<std::string, std::function<Task()>> tasks{{"CNN", cnn}, {"MLP", mlp}};
  std::map<std::string, Spans> cases;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [name, make] : tasks) {
      Task plain = make();
      torch::optim::SGD sgd = plain_sgd(plain);
      time_steps(hora, plain, sgd, iterations, cases[name + ": plain"]);
      Task wrapped = make();
      hora::broadcast_parameters(hora, *wrapped.model);
      hora::DistributedOptimizer optimizer(hora, plain_sgd(wrapped), wrapped.model->named_parameters());
      time_steps(hora, wrapped, optimizer, iterations, cases[name + ": wrapped"]);
    }
  }
  return cases;
}

void write(const std::map<std::string, Spans>& cases, const std::string& file) {
  std::ofstream out(file);
  out << std::setprecision(17) << "{";
  const char* before = "";
  for (const auto& [name, spans] : cases) {
    out << std::exchange(before, ", ") << '"' << name << "\": {\"spans\": [";
    for (std::size_t i = 0; i < spans.size(); ++i)
      out << (i == 0 ? "[" : ", [") << spans[i].first << ", " << spans[i].second << "]";
    out << "]}";
  }
  out << "}\n";
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("usage: hrun -np N train_steps ITERATIONS FOLDER\n", stderr);
    return 2;
  }
  torch::set_num_threads(1);
  hora::Runtime hora = hora::init();
  write(measure(hora, std::atoi(words[1])),
        std::string(words[2]) + "/rank" + std::to_string(hora.rank()) + ".json");
  return 0;
}
