// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/handover.h"

#include "frameworks/torch/optimizer_state.h"

#include <hora/alike.h>

#include <algorithm>
#include <map>
#include <utility>

namespace hora::elastic {
namespace {

/// Smaller tensors go together.
constexpr std::size_t kLargeBytes = 64 * 1024;

bool is_large(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && tensor.nbytes() >= kLargeBytes;
}

/// Memory for the values that were left out when an optimizer was loaded, zero at first: the optimizer may
/// make steps with it. It stays where a rank has some.
void make_memory(const torch::Tensor& tensor, const torch::Tensor& former) {
  const bool fits = former.defined() && former.sizes() == tensor.sizes() && is_large(former);
  torch::Tensor(tensor).set_data(fits ? former : torch::zeros(tensor.sizes(), tensor.options()));
}

}  // namespace

std::vector<state::StateTransfer::Unit> memory_of(const std::vector<Unit>& units) {
  std::vector<state::StateTransfer::Unit> memory;
  for (const Unit& unit : units) {
    memory.emplace_back();
    for (const auto& tensor : unit)
      memory.back().emplace_back(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
  }
  return memory;
}

bool are_alike(const std::vector<Unit>& units, const std::vector<Unit>& others) {
  const auto same = [](const torch::Tensor& one, const torch::Tensor& other) {
    return one.sizes() == other.sizes() && one.dtype() == other.dtype();
  };
  return std::equal(units.begin(), units.end(), others.begin(), others.end(),
                    [&](const Unit& one, const Unit& other) {
                      return std::equal(one.begin(), one.end(), other.begin(), other.end(), same);
                    });
}

std::string place_of(const torch::Tensor& tensor) {
  if (is_large(tensor) || tensor.nbytes() < kLargeBytes) return "";
  return tensor.device().is_cpu() ? ", not contiguous" : " on a GPU";
}

Handover::Handover(Runtime& hora, NamedTensors parameters, NamedTensors buffers,
                   torch::optim::Optimizer& optimizer, int root)
    : hora_(hora),
      parameters_(std::move(parameters)),
      buffers_(std::move(buffers)),
      optimizer_(optimizer),
      root_(root),
      apart_(parameters_.size(), false) {}

void Handover::give_model(bool apart) {
  std::map<const void*, int> sharers;  // of a storage
  for (const auto* tensors : {&parameters_, &buffers_})
    for (const auto& item : *tensors) ++sharers[item.value().storage().data()];
  if (apart) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& own = parameters_[i].value();
      apart_[i] = is_large(own) && sharers[own.storage().data()] == 1;
    }
    apart_ = found_by_root(apart_, "elastic.training.parameters");
  }
  NamedTensors given = buffers_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!apart_[i]) given.insert(parameters_[i].key(), parameters_[i].value());
  }
  broadcast_parameters(hora_, given, root_);
}

std::vector<Unit> Handover::give_optimizer(bool needs, bool apart) {
  std::vector<torch::Tensor> former;
  std::vector<torch::Tensor> left_out;
  for (const Unit& unit : states()) {
    for (const auto& tensor : unit) {
      former.push_back(tensor.detach());
      if (apart && is_large(tensor)) left_out.push_back(tensor);
    }
  }
  const auto make = [&] { return bytes_without(optimizer_, left_out); };
  const std::string bytes = broadcast_bytes(hora_, make, root_, {.name = "elastic.training.optimizer"});
  if (needs) load_bytes(optimizer_, bytes);
  if (!apart) return {};

  const auto loaded = states();
  std::vector<bool> large;
  for (const Unit& unit : loaded)
    for (const auto& tensor : unit) large.push_back(is_large(tensor));
  large = found_by_root(large, "elastic.training.states");
  if (former.size() != large.size()) former.assign(large.size(), {});
  std::vector<Unit> units;
  std::size_t number = 0;  // of the state
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    Unit unit;
    if (apart_[i]) unit.push_back(parameters_[i].value());
    for (const auto& tensor : loaded[i]) {
      if (large[number]) {
        if (needs) make_memory(tensor, former[number]);
        unit.push_back(tensor);
      }
      ++number;
    }
    if (!unit.empty()) units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Unit> Handover::states() {
  std::vector<Unit> states;
  for (const auto& item : parameters_) states.push_back(state_of(optimizer_, item.value()));
  return states;
}

std::vector<bool> Handover::found_by_root(const std::vector<bool>& own, const char* name) {
  torch::Tensor told = torch::zeros({static_cast<std::int64_t>(own.size())}, torch::kBool);
  for (std::size_t i = 0; i < own.size(); ++i) told[static_cast<std::int64_t>(i)] = bool{own[i]};
  broadcast_(hora_, told, root_, {.name = name});
  std::vector<bool> found(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) found[i] = told[static_cast<std::int64_t>(i)].item<bool>();
  return found;
}

}  // namespace hora::elastic
