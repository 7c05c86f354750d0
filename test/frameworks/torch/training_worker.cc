// SPDX-License-Identifier: Apache-2.0
// A rank that trains with hora::elastic::Training:
//
//   training_worker DEATHS AUDIT [WAIT...] [--from FILE] [--until STEPS] [--to FILE]
//
// DEATHS: "RANK:STEPS:PLACE:SIGNAL,...": the rank that was started under this number sends itself the signal
// when so many steps count, at this place of the program. AUDIT: the folder of the audit, or "". WAIT: after
// so many steps the ranks wait until they are three, or change. With WAIT 0 the model of a process that joins
// late is another one. With WAIT -1 the model is so large that such a process gets it during several steps.
// WAIT -2: and one of its parameters follows another one. With --from the rank goes on from a checkpoint.
// With
// --until it ends when so many steps count. With --to rank 0 then writes a checkpoint.
#include <hora/torch/elastic.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// Changes buffers of each kind in its forward pass.
struct BuffersImpl : torch::nn::Cloneable<BuffersImpl> {
  BuffersImpl() { reset(); }
  void reset() override {
    seen = register_buffer("seen", torch::zeros(1, torch::kFloat64));
    table = register_buffer("table", torch::randn(2, torch::kComplexFloat));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) seen.mul_(0.5).add_(x.detach().mean());
    return x * (1 + 0.1 * torch::real(table).mean().to(torch::kFloat64));
  }
  torch::Tensor seen;
  torch::Tensor table;
};
TORCH_MODULE(Buffers);

struct NetImpl : torch::nn::Module {
  NetImpl(int hidden, bool large)
      : first(register_module("first", torch::nn::Linear(4, hidden))),
        norm(register_module("norm", torch::nn::BatchNorm1d(hidden))),
        wide(register_module("wide", torch::nn::Linear(hidden, 1100))),  // given while the ranks compute
        last(register_module("last", torch::nn::Linear(1100, 1))) {
    for (int i = 0; i < (large ? 4 : 0); ++i) more->push_back(torch::nn::Linear(1100, 1100));
    to(torch::kFloat64);
    buffers = register_module("buffers", Buffers());  // has complex ones, which would become real
  }
  torch::Tensor forward(torch::Tensor x) {
    x = drop->forward(norm->forward(first->forward(x)));
    x = torch::tanh(wide->forward(buffers->forward(torch::relu(x))));
    return last->forward(more->is_empty() ? x : more->forward(x));
  }
  torch::Tensor average = register_parameter("average", torch::zeros({100, 100}), false);
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear wide;
  torch::nn::Sequential more = register_module("more", torch::nn::Sequential());
  torch::nn::Linear last;
  Buffers buffers{nullptr};
};
TORCH_MODULE(Net);

class Data : public torch::data::datasets::Dataset<Data> {
 public:
  Data() {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    inputs_ = torch::randn({150, 4}, generator, torch::kFloat64);
    targets_ = inputs_.sum(1, true).sin();
  }
  torch::data::Example<> get(std::size_t index) override {
    const auto row = static_cast<std::int64_t>(index);
    return {inputs_[row], targets_[row]};
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return 150; }

 private:
  torch::Tensor inputs_;
  torch::Tensor targets_;
};

/// The rank's own death.
class Death {
 public:
  explicit Death(const std::string& list) {
    std::istringstream stream(list);
    for (std::string each; std::getline(stream, each, ',');) {
      const std::size_t last = each.rfind(':');
      deaths_.emplace_back(each.substr(0, last), std::atoi(each.c_str() + last + 1));
    }
  }
  void at(const char* place, std::int64_t steps) const {
    const std::string here =
        std::string(std::getenv("HORA_RANK")) + ':' + std::to_string(steps) + ':' + place;
    for (const auto& [where, signal] : deaths_) {
      if (where == here) ::raise(signal);
    }
  }

 private:
  std::vector<std::pair<std::string, int>> deaths_;
};

struct Arguments {
  Arguments(int argc, char** argv) : deaths(argv[1]), audit(argv[2]) {
    for (int i = 3; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--from") {
        from = argv[++i];
      } else if (word == "--until") {
        until = std::atoi(argv[++i]);
      } else if (word == "--to") {
        to = argv[++i];
      } else {
        waits.insert(std::atoi(argv[i]));
      }
    }
  }
  std::string deaths;
  std::string audit;
  std::set<int> waits;
  std::string from;
  std::int64_t until = std::numeric_limits<std::int64_t>::max();
  std::string to;
};

/// Differs if any bit of the model does.
std::size_t hash_of(const torch::nn::Module& model) {
  std::string bytes;
  for (const auto& list : {model.parameters(), model.buffers()}) {
    for (const auto& tensor : list)
      bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return std::hash<std::string>()(bytes);
}

void train(hora::Runtime& hora, const Arguments& given) {
  const Death death(given.deaths);
  const auto& waits = given.waits;
  torch::manual_seed(7 + std::atoi(std::getenv("HORA_RANK")));  // the model of rank 0 counts
  const bool joins_late = hora.is_elastic() && hora.generation() == 0;
  Net model(joins_late && waits.contains(0) ? 9 : 8, !waits.empty() && *waits.begin() < 0);
  hora::elastic::Training training(
      hora, *model,
      torch::optim::Adam(model->parameters(), torch::optim::AdamOptions(0.05).weight_decay(0.001)),
      Data().map(torch::data::transforms::Stack<>()),
      {.batch = 32,
       .microbatch = 8,
       .clip_norm = 0.5,
       .scheduler = [](auto& optimizer) { return std::make_unique<torch::optim::StepLR>(optimizer, 4, 0.5); },
       .audit = given.audit});
  if (!given.from.empty()) {
    torch::serialize::InputArchive archive;
    archive.load_from(given.from);
    training.load(archive);
  }
  const auto steps = [&] { return training.progress().steps; };
  if (!joins_late) death.at("begin", steps());
  double total = 0;
  while (steps() < given.until && training.begin_epoch(3)) {
    while (const auto batch = training.next()) {
      const auto loss = torch::mse_loss(model->forward(batch->data), batch->target);
      death.at("forward", steps());
      training.backward(loss);
      death.at("backward", steps());
      const bool counts = training.step();
      if (counts && waits.contains(-2)) {
        const torch::NoGradGuard no_grad;
        model->average.lerp_(
            (*model->more)[2]->as<torch::nn::Linear>()->weight.slice(0, 0, 100).slice(1, 0, 100), 0.5);
      }
      if (counts && waits.contains(static_cast<int>(steps()))) {
        while (hora.size() < 3 && !hora.change_is_due()) training.retry([] {});
      }
      death.at("step", steps());
      if (steps() == given.until) break;
    }
    total = training.retry([&] {
      death.at("evaluate", steps());
      return hora::allreduce(hora, model->first->weight.detach().sum()).item<double>();
    });
    death.at("epoch", steps());
  }
  hora::check_replicas(hora, model);
  const double rate = training.optimizer().param_groups().front().options().get_lr();
  std::printf("result %d %.15g %.15g %.15g %.15g %.15g %.15g %.15g\n", static_cast<int>(steps()), total,
              model->norm->running_var.sum().item<double>(),
              static_cast<double>(model->norm->num_batches_tracked.item<std::int64_t>()), rate,
              model->buffers->seen.item<double>(), torch::real(model->buffers->table).sum().item<double>(),
              torch::randn(1).item<double>());
  std::printf("bits %zx\n", hash_of(*model));
  if (!given.to.empty() && hora.rank() == 0) {
    torch::serialize::OutputArchive archive;
    training.save(archive);
    archive.save_to(given.to);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  at::set_num_threads(1);  // the order of sums depends on it
  try {
    auto hora = hora::init();
    train(hora, Arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
