// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/maker.h"

#include "frameworks/torch/devices.h"
#include "frameworks/torch/optimizer_state.h"
#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <map>
#include <set>
#include <typeinfo>
#include <utility>

namespace hora::elastic {
namespace {

constexpr int kEpoch = 40;  // bits of the place in an epoch

std::string described(const NamedTensors::Item& item) {
  return text_of("{}[{}]", name(dtype_of(item.value(), item.key())), joined(item.value().sizes(), ","));
}

/// The name of a tensor in a checkpoint, where names have no dots.
std::string key_of(std::size_t number) { return text_of("tensor{}", number); }

std::string described(torch::optim::Optimizer& optimizer) {
  std::vector<std::size_t> sizes;
  for (const auto& group : optimizer.param_groups()) sizes.push_back(group.params().size());
  return text_of("{} of {} parameters", c10::demangle(typeid(optimizer).name()), joined(sizes, " and "));
}

std::string described(std::int64_t number) {
  return text_of("up to sample {} of epoch {}", number & ((std::int64_t{1} << kEpoch) - 1), number >> kEpoch);
}

/// Each parameter once, also if modules share it.
NamedTensors parameters_of(const torch::nn::Module& model) {
  NamedTensors parameters;
  std::set<const void*> known;
  for (const auto& item : model.named_parameters()) {
    if (known.insert(item.value().unsafeGetTensorImpl()).second) parameters.insert(item.key(), item.value());
  }
  return parameters;
}

}  // namespace

Maker::Maker(Runtime& hora, torch::nn::Module& model, std::unique_ptr<torch::optim::Optimizer> optimizer,
             const TrainingOptions& options)
    : hora_(hora),
      model_(model),
      options_(options),
      optimizer_(hora, std::move(optimizer), parameters_of(model), options.gradients),
      buffers_(hora, model) {
  schedule(0);
}

void Maker::backward(const Step& step, std::int64_t epoch, const torch::Tensor& loss) {
  const Piece& piece = step.pieces[step.taken - 1];
  const double part = static_cast<double>(piece.size()) / static_cast<double>(step.whole.size());
  if (!step.share.empty()) buffers_.add(part, piece.first == step.whole.first);
  if (step.has_last()) start(step, epoch);
  if (!step.share.empty()) {
    std::optional<DistributedOptimizer::NoSync> no_sync;
    if (!step.has_last()) no_sync.emplace(optimizer_);
    (loss * (options_.gradients.op == ReduceOp::average ? part * hora_.size() : part)).backward();
  }
  buffers_.restore();
}

void Maker::start(const Step& step, std::int64_t epoch) {
  const std::int64_t number = (epoch << kEpoch) | step.whole.last;
  compared_ = allreduce_async_(hora_, torch::tensor({number, -number, buffers_.others()}),
                               {.name = "elastic.step", .op = ReduceOp::max});
  buffers_.start();
}

void Maker::complete() {
  optimizer_.synchronize();
  const torch::Tensor compared = std::exchange(compared_, std::nullopt).value().wait();
  const auto last = compared[0].item<std::int64_t>();
  const auto first = -compared[1].item<std::int64_t>();
  if (last != first) {
    throw Error(Code::invalid_argument,
                text_of("the ranks make different steps: {} and {}. All ranks leave the loop after the same "
                        "step: where training.step() has returned true",
                        described(first), described(last)));
  }
  buffers_.finish(compared[2].item<std::int64_t>() > 0);
  await_gpu();
}

void Maker::await_gpu() {
  const Device device = device_among(model_.parameters());
  if (device.kind == DeviceKind::host) return;
  torch::cuda::synchronize(device.index);
  static_cast<void>(hora_.probe(hora_.rank(), 0));  // as any call would
}

void Maker::make() {
  buffers_.make();
  if (options_.clip_norm > 0) {
    std::vector<torch::Tensor> parameters;
    for (const auto& group : optimizer().param_groups())
      parameters.insert(parameters.end(), group.params().begin(), group.params().end());
    torch::nn::utils::clip_grad_norm_(parameters, options_.clip_norm);
  }
  optimizer().step();
  optimizer_.zero_grad();
  schedule(scheduled_ + 1);
}

void Maker::take_back() {
  optimizer_.zero_grad();
  buffers_.restore();
}

void Maker::schedule(std::int64_t steps) {
  if (!options_.scheduler) return;
  if (!scheduler_ || steps < scheduled_) {
    scheduler_ = options_.scheduler(optimizer());
    scheduled_ = 0;
  }
  for (; scheduled_ < steps; ++scheduled_) scheduler_->step();
}

NamedTensors Maker::tensors() const {
  NamedTensors tensors = parameters_of(model_);
  tensors.update(buffers_of(model_));
  return tensors;
}

std::vector<Item> Maker::description() {
  std::vector<Item> items;
  for (const auto& item : parameters_of(model_))
    items.push_back({"model." + item.key(), described(item) + place_of(item.value())});
  for (const auto& item : buffers_of(model_)) items.push_back({"model." + item.key(), described(item)});
  const DistributedOptions& gradients = options_.gradients;
  items.push_back({"optimizer", described(optimizer())});
  items.push_back({"scheduler", scheduler_ ? c10::demangle(typeid(*scheduler_).name()) : "none"});
  items.push_back({"clip_norm", text_of("{}", options_.clip_norm)});
  items.push_back({"gradients", text_of("{}, compression {}, predivide factor {}, {} groups",
                                        name(gradients.op), static_cast<int>(gradients.compression),
                                        gradients.gradient_predivide_factor, gradients.groups)});
  return items;
}

/// The scheduler makes the steps that it has not made, before the learning rates come.
std::vector<Unit> Maker::give(int root, bool needs, bool apart) {
  Handover handover(hora_, parameters_of(model_), buffers_of(model_), optimizer(), root);
  handover.give_model(apart);
  torch::Tensor scheduled = torch::tensor(scheduled_);
  broadcast_(hora_, scheduled, root, {.name = "elastic.training.scheduled"});
  schedule(scheduled.item<std::int64_t>());
  return handover.give_optimizer(needs, apart);
}

void Maker::save(torch::serialize::OutputArchive& archive) {
  std::vector<std::string> names;
  for (const auto& item : tensors()) {
    archive.write(key_of(names.size()), item.value().detach());
    names.push_back(item.key());
  }
  archive.write("names", c10::IValue(names));
  archive.write("optimizer", c10::IValue(bytes_of(optimizer())));
  archive.write("scheduled", c10::IValue(scheduled_));
}

/// The tensors of the model stay, so they are on the same device, and have the same places for gradients.
void Maker::load(torch::serialize::InputArchive& archive) {
  const torch::NoGradGuard no_grad;
  c10::IValue names;
  c10::IValue optimizer_bytes;
  c10::IValue scheduled;
  archive.read("names", names);
  archive.read("optimizer", optimizer_bytes);
  archive.read("scheduled", scheduled);
  std::map<std::string, torch::Tensor> saved;
  for (const auto& name : names.toList()) {
    torch::Tensor tensor;
    archive.read(key_of(saved.size()), tensor);
    saved.emplace(name.get().toStringRef(), tensor);
  }
  const NamedTensors own = tensors();
  for (const auto& item : own) {
    const auto found = saved.find(item.key());
    const std::string there = found == saved.end() ? "missing" : described({item.key(), found->second});
    if (there != described(item) || saved.size() != own.size()) {
      throw Error(
          Code::invalid_argument,
          text_of("the checkpoint is of another model: '{}' is {} there, and {} here; it has {} tensors, "
                  "and this model {}",
                  item.key(), there, described(item), saved.size(), own.size()));
    }
  }
  for (const auto& item : own) item.value().copy_(saved.at(item.key()));
  schedule(scheduled.toInt());
  load_bytes(optimizer(), optimizer_bytes.toStringRef());
}

void Maker::begin_generation() {
  optimizer_.zero_grad();  // which takes the memory for gradients that the ranks share
  compared_.reset();
  buffers_.begin_generation();
}

}  // namespace hora::elastic
