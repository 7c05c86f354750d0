// SPDX-License-Identifier: Apache-2.0
#include <hora/alike.h>
#include <hora/torch.h>

#include "frameworks/torch/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace hora {
namespace {

/// All together or none.
void broadcast_group_(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<torch::Tensor> memory;
  std::vector<Entry> entries;
  for (const auto& item : tensors) {
    const std::string name = "broadcast.parameters." + item.key();
    memory.push_back(lendable_in_place(item.value(), name));
    entries.push_back(lend(memory.back(), memory.back(), Operation::broadcast, name, process_set));
    entries.back().root = root;
  }
  if (entries.empty()) return;
  static_cast<void>(wait_for_all(hora.submit(std::move(entries)), device_among(memory)));
  for (std::size_t i = 0; i < memory.size(); ++i)
    static_cast<void>(write_back(tensors.items()[i].value(), memory[i]));
}

}  // namespace

void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<Item> items;
  for (const auto& item : tensors) {
    const DType dtype = dtype_of(item.value(), "parameters." + item.key());
    items.push_back({item.key(), fmt::format("{}[{}]", name(dtype), fmt::join(item.value().sizes(), ","))});
  }
  require_alike(hora, "parameters.alike", "the parameters", items, process_set);
  broadcast_group_(hora, tensors, root, process_set);
}

void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root, int process_set) {
  NamedTensors all = module.named_parameters();
  all.update(module.named_buffers());
  broadcast_parameters(hora, all, root, process_set);
}

// The state of each kind of optimizer has its own type; LibTorch's archives know them all, with the options.
void broadcast_optimizer_state(Runtime& hora, torch::optim::Optimizer& optimizer, int root, int process_set) {
  std::string bytes;
  if (hora.rank() == root) {
    std::ostringstream stream;
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(stream);
    bytes = stream.str();
  }
  torch::Tensor length = torch::tensor(static_cast<std::int64_t>(bytes.size()));
  broadcast_(hora, length, root, {.name = "optimizer_state.length", .process_set = process_set});
  bytes.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  torch::Tensor content =
      torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  broadcast_(hora, content, root, {.name = "optimizer_state.bytes", .process_set = process_set});
  if (hora.rank() == root) return;
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  const auto parameters = optimizer.parameters();
  archive.load_from(stream, parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device());
  optimizer.load(archive);
}

}  // namespace hora
