// SPDX-License-Identifier: Apache-2.0
// Digits: a small network learns to read handwritten digits, on any number of ranks.
//
//   hrun -np 2 build/default/bin/digits
//   hrun -np 2 build/default/bin/digits --device cuda      one GPU for each rank
//
// Expected output (figures differ a little from machine to machine; ... is any text):
//   [0] epoch  1/12  loss ...  accuracy ...  ... images/s
//   [0] epoch 12/12  loss ...  accuracy 0.9...  ... images/s
//   [0] held-out accuracy 0.9...
//   [0] parameters are equal on all 2 ranks
#include <hora/torch.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>

namespace {

constexpr int kHeldOut = 5;  // every fifth image is for the exam, and never learned from

struct Flags {
  int epochs = 12;
  int batch = 32;  // on each rank
  double learning_rate = 0.1;
  std::string data = DIGITS_DATA;
  std::string compression = "none";
  std::string device = "cpu";
  std::string checkpoint;
  std::string resume;
  std::string losses;
};

constexpr const char* kUsage =
    "usage: digits [--epochs N] [--batch N] [--learning-rate X] [--compression none|fp16|bf16]\n"
    "              [--device cpu|cuda] [--data FILE] [--checkpoint FILE] [--resume FILE] [--losses FILE]\n";

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    const bool known = flag == "--epochs"          ? (flags.epochs = std::atoi(value.c_str())) > 0
                       : flag == "--batch"         ? (flags.batch = std::atoi(value.c_str())) > 0
                       : flag == "--learning-rate" ? (flags.learning_rate = std::atof(value.c_str())) > 0
                       : flag == "--compression"   ? (flags.compression = value,
                                                      value == "none" || value == "fp16" || value == "bf16")
                       : flag == "--device"        ? (flags.device = value, value == "cpu" || value == "cuda")
                       : flag == "--data"          ? !(flags.data = value).empty()
                       : flag == "--checkpoint"    ? !(flags.checkpoint = value).empty()
                       : flag == "--resume"        ? !(flags.resume = value).empty()
                       : flag == "--losses"        ? !(flags.losses = value).empty()
                                                   : false;
    if (!known) {
      std::fprintf(stderr, "digits: %s %s is not understood\n%s", flag.c_str(), value.c_str(), kUsage);
      std::exit(2);
    }
  }
  return flags;
}

struct Images {
  torch::Tensor pixels;  // float32[images, 64], 0 to 1
  torch::Tensor labels;  // int64[images]
};

/// The CPU, or this rank's GPU: the one of its number among the ranks of its host.
torch::Device choose_device(const hora::Runtime& hora, const std::string& kind) {
  if (kind == "cpu") return torch::kCPU;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus <= hora.local_rank()) {
    throw std::runtime_error("--device cuda: this host has " + std::to_string(gpus) + " GPUs, and rank " +
                             std::to_string(hora.rank()) + " wants number " +
                             std::to_string(hora.local_rank()));
  }
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(hora.local_rank())};
}

/// Reads a line for each image: 64 pixels from 0 to 16, and the digit.
Images read_images(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + "; --data FILE says where the digits are");
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::string number;
    for (int column = 0; std::getline(numbers, number, ','); ++column) {
      if (column < 64)
        pixels.push_back(std::stof(number) / 16);
      else
        labels.push_back(std::stol(number));
    }
    if (pixels.size() != labels.size() * 64) throw std::runtime_error(path + ": a line has not 65 numbers");
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {torch::tensor(pixels).view({count, 64}), torch::tensor(labels)};
}

Images select(const Images& images, const torch::Tensor& index) {
  return {images.pixels.index_select(0, index), images.labels.index_select(0, index)};
}

/// This rank's batches of an epoch: all ranks shuffle alike, and take turns, so that batch B on each of 2
/// ranks is batch 2B on one.
std::vector<std::vector<std::int64_t>> batches(std::int64_t images, int epoch, int batch, int rank,
                                               int size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(images));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(static_cast<unsigned>(epoch));
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
  const auto together = static_cast<std::size_t>(batch * size);
  std::vector<std::vector<std::int64_t>> mine;
  for (std::size_t begin = 0; begin + together <= order.size(); begin += together) {
    mine.emplace_back();
    for (std::size_t i = static_cast<std::size_t>(rank); i < together; i += static_cast<std::size_t>(size)) {
      mine.back().push_back(order[begin + i]);
    }
  }
  return mine;
}

struct NetImpl : torch::nn::Module {
  NetImpl()
      : hidden(register_module("hidden", torch::nn::Linear(64, 64))),
        out(register_module("out", torch::nn::Linear(64, 10))) {}
  torch::Tensor forward(const torch::Tensor& pixels) { return out(torch::relu(hidden(pixels))); }
  torch::nn::Linear hidden;
  torch::nn::Linear out;
};
TORCH_MODULE(Net);

double mean_over_ranks(hora::Runtime& hora, double value, const std::string& name) {
  return hora::allreduce(hora, torch::tensor(value, torch::kFloat64), {.name = name}).item<double>();
}

/// The share of held-out images that are read right: every rank reads some of them.
double exam(hora::Runtime& hora, Net& net, const Images& images) {
  const torch::NoGradGuard no_grad;
  const auto all = images.labels.size(0);
  const Images mine = select(images, torch::arange(hora.rank(), all, hora.size(), images.labels.device()));
  const auto right = (net(mine.pixels).argmax(1) == mine.labels).sum().to(torch::kFloat64);
  return hora::allreduce(hora, right, {.name = "right", .op = hora::ReduceOp::sum}).item<double>() /
         static_cast<double>(all);
}

bool parameters_are_equal(hora::Runtime& hora, Net& net) {
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : net->parameters()) flat.push_back(parameter.detach().flatten());
  const auto all = hora::allgather(hora, torch::cat(flat).unsqueeze(0), {.name = "parameters"});
  return torch::equal(all, all[0].expand_as(all));
}

void draw_bar(const hora::Runtime& hora, std::size_t done, std::size_t all) {
  const bool terminal = isatty(STDOUT_FILENO) == 1 || std::getenv("HORA_TERMINAL") != nullptr;
  if (hora.rank() != 0 || !terminal) return;
  std::printf("%.*s%.*s\r", static_cast<int>(40 * done / all), "########################################",
              static_cast<int>(40 - 40 * done / all), "........................................");
  std::fflush(stdout);
}

int train(hora::Runtime& hora, const Flags& flags) {
  const torch::Device device = choose_device(hora, flags.device);
  Images all = read_images(flags.data);
  all = {all.pixels.to(device), all.labels.to(device)};
  const auto numbers = torch::arange(all.labels.size(0), device);
  const Images images = select(all, numbers.masked_select(numbers % kHeldOut != 0));
  const Images held_out = select(all, numbers.masked_select(numbers % kHeldOut == 0));
  if (images.labels.size(0) < static_cast<std::int64_t>(flags.batch) * hora.size())
    throw std::runtime_error("--batch " + std::to_string(flags.batch) + " is more than there are images");
  torch::manual_seed(1);
  Net net;
  net->to(device);
  auto sgd =
      torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(flags.learning_rate).momentum(0.9));
  if (!flags.resume.empty() && hora.rank() == 0) {
    torch::load(net, flags.resume, device);
    torch::load(sgd, flags.resume + ".optimizer", device);
  }
  const auto compression = flags.compression == "fp16"   ? hora::Compression::fp16
                           : flags.compression == "bf16" ? hora::Compression::bf16
                                                         : hora::Compression::none;
  hora::broadcast_parameters(hora, *net);
  hora::broadcast_optimizer_state(hora, sgd);
  hora::DistributedOptimizer optimizer(hora, std::move(sgd), net->named_parameters(),
                                       {.compression = compression});

  std::ofstream losses;
  if (!flags.losses.empty() && hora.rank() == 0) losses.open(flags.losses);
  losses.precision(9);
  for (int epoch = 1; epoch <= flags.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const auto mine = batches(images.labels.size(0), epoch, flags.batch, hora.rank(), hora.size());
    double epoch_loss = 0;
    double right = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Images batch = select(images, torch::tensor(mine[i]).to(device));
      optimizer.zero_grad();
      const auto scores = net(batch.pixels);
      const auto loss = torch::nn::functional::cross_entropy(scores, batch.labels);
      loss.backward();
      optimizer.step();
      const double mean_loss = mean_over_ranks(hora, loss.item<double>(), "loss");
      epoch_loss += mean_loss / static_cast<double>(mine.size());
      right += (scores.argmax(1) == batch.labels).sum().item<double>();
      if (losses.is_open()) losses << mean_loss << '\n';
      draw_bar(hora, i + 1, mine.size());
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    const auto seen = static_cast<double>(mine.size()) * flags.batch;
    const double accuracy = mean_over_ranks(hora, right / seen, "accuracy");
    if (hora.rank() == 0) {
      std::printf("epoch %2d/%d  loss %.4f  accuracy %.4f  %.0f images/s\n", epoch, flags.epochs, epoch_loss,
                  accuracy, seen * hora.size() / time.count());
      std::fflush(stdout);
    }
  }

  const double accuracy = exam(hora, net, held_out);
  const bool equal = parameters_are_equal(hora, net);
  if (hora.rank() == 0) {
    std::printf("held-out accuracy %.4f\n", accuracy);
    std::printf("parameters are %s on all %d ranks\n", equal ? "equal" : "NOT EQUAL", hora.size());
    if (!flags.checkpoint.empty()) {
      torch::save(net, flags.checkpoint);
      torch::save(optimizer.optimizer(), flags.checkpoint + ".optimizer");
    }
  }
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = parse(argc, argv);
  torch::set_num_threads(1);  // the network is small; the ranks are the parallelism
  try {
    auto hora = hora::init();
    return train(hora, flags);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "digits: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
