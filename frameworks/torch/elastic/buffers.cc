// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/buffers.h"

#include "frameworks/torch/text.h"

#include <algorithm>

namespace hora::elastic {
namespace {

/// Whether a normalisation layer changes the buffer, which does not tell autograd.
bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") ||
         name.ends_with("num_batches_tracked");
}

/// The dtype in which changes are added up.
torch::ScalarType sum_dtype(const torch::Tensor& like) {
  if (!like.is_floating_point()) return torch::kInt64;
  return like.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

bool is_like(const torch::Tensor& one, const torch::Tensor& other) {
  return one.defined() && one.sizes() == other.sizes() && one.scalar_type() == other.scalar_type();
}

}  // namespace

NamedTensors buffers_of(const torch::nn::Module& model) {
  NamedTensors buffers;
  for (const auto& item : model.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!buffer.defined()) continue;
    buffers.insert(item.key(), buffer.is_complex() ? torch::view_as_real(buffer.resolve_conj()) : buffer);
  }
  return buffers;
}

std::vector<Buffers::Known> Buffers::changed() {
  std::vector<Known> changed;
  for (const auto& item : buffers_of(model_)) {
    const auto found = buffers_.find(item.key());
    if (found == buffers_.end() || !is_like(found->second.before, item.value())) continue;
    const Buffer& buffer = found->second;
    const bool is_same =
        buffer.memory == item.value().data_ptr() && buffer.version == item.value()._version();
    if (!is_same || is_statistic(item.key())) changed.push_back({item.value(), &found->second});
  }
  return changed;
}

/// The buffer has the value from before the step.
void Buffers::note(const Known& known) {
  known.buffer->memory = known.now.data_ptr();
  known.buffer->version = known.now._version();
}

void Buffers::begin_generation() {
  sums_.clear();
  for (auto& [name, buffer] : buffers_) buffer.sent = is_statistic(name);
}

void Buffers::begin_step() {
  const torch::NoGradGuard no_grad;
  const NamedTensors all = buffers_of(model_);
  std::erase_if(buffers_, [&](const auto& each) { return !all.contains(each.first); });
  for (const auto& item : all) {
    const auto [found, is_new] = buffers_.try_emplace(item.key());
    Buffer& buffer = found->second;
    if (is_new) buffer.sent = is_statistic(item.key());
    if (!is_like(buffer.before, item.value())) {
      buffer.before = torch::empty_like(item.value());
      buffer.memory = nullptr;
    }
    buffer.change.reset();
  }
  for (const auto& each : changed()) {
    each.buffer->before.copy_(each.now);
    note(each);
  }
  sums_.clear();
}

void Buffers::restore() {
  const torch::NoGradGuard no_grad;
  for (auto& each : changed()) {
    each.now.copy_(each.buffer->before);
    note(each);
  }
}

void Buffers::add(double weight, bool is_first) {
  const torch::NoGradGuard no_grad;
  for (const auto& [now, buffer] : changed()) {
    const bool is_real = now.is_floating_point();
    if (!is_real && !is_first) continue;
    const auto dtype = sum_dtype(now);
    torch::Tensor change = now.to(dtype) - buffer->before.to(dtype);
    if (is_real) change.mul_(weight);
    buffer->change = buffer->change.defined() ? buffer->change.add_(change) : change;
  }
}

std::int64_t Buffers::others() const {
  return std::count_if(buffers_.begin(), buffers_.end(),
                       [](const auto& each) { return each.second.change.defined() && !each.second.sent; });
}

void Buffers::start() {
  const torch::NoGradGuard no_grad;
  std::map<std::string, std::vector<Buffer*>> places;  // by device and dtype, the same on all ranks
  for (auto& [name, buffer] : buffers_) {
    if (!buffer.sent) continue;
    const auto device = torch::DeviceTypeName(buffer.before.device().type(), /*lower_case=*/true);
    places[text_of("{}.{}", device, torch::toString(sum_dtype(buffer.before)))].push_back(&buffer);
  }
  sums_.clear();
  for (auto& [place, together] : places) {
    std::vector<torch::Tensor> changes;
    for (const Buffer* buffer : together) {
      const auto& change = buffer->change;
      changes.push_back(change.defined()
                            ? change.flatten()
                            : torch::zeros(buffer->before.numel(),
                                           buffer->before.options().dtype(sum_dtype(buffer->before))));
    }
    sums_.emplace_back(std::move(together),
                       allreduce_async_(hora_, torch::cat(changes),
                                        {.name = "elastic.buffers." + place, .op = ReduceOp::sum}));
  }
}

void Buffers::finish(bool others) {
  for (const auto& [buffers, sum] : sums_) static_cast<void>(sum.wait());
  if (!others) return;
  agree();
  start();
  finish(false);
}

void Buffers::make() {
  const torch::NoGradGuard no_grad;
  for (const auto& [buffers, sum] : sums_) {
    const torch::Tensor all = sum.wait();
    std::int64_t at = 0;
    for (Buffer* buffer : buffers) {
      const auto change = all.slice(0, at, at + buffer->before.numel()).view(buffer->before.sizes());
      buffer->before.copy_(buffer->before.to(all.scalar_type()) + change);
      buffer->memory = nullptr;
      at += buffer->before.numel();
    }
  }
  restore();
}

/// Finds out which buffers have changed on any rank.
void Buffers::agree() {
  std::vector<std::int64_t> seen;
  for (const auto& [name, buffer] : buffers_) seen.push_back(buffer.sent || buffer.change.defined() ? 1 : 0);
  const torch::Tensor changed =
      allreduce(hora_, torch::tensor(seen), {.name = "elastic.buffers.changed", .op = ReduceOp::max});
  std::int64_t number = 0;
  for (auto& [name, buffer] : buffers_) buffer.sent = changed[number++].item<std::int64_t>() != 0;
}

}  // namespace hora::elastic
