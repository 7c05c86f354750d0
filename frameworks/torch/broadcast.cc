// SPDX-License-Identifier: Apache-2.0
#include <hora/alike.h>
#include <hora/torch.h>

#include "frameworks/torch/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <sstream>

namespace hora {
namespace {

/// Whether memory of a tensor is in one of these ranges, which do not overlap; else adds its own.
bool is_among(const torch::Tensor& tensor, std::map<std::byte*, std::byte*>& ranges) {
  auto* const begin = static_cast<std::byte*>(tensor.data_ptr());
  std::byte* const end = begin + tensor.nbytes();
  const auto next = ranges.lower_bound(end);
  if (begin == end || (next != ranges.begin() && std::prev(next)->second > begin)) return begin != end;
  ranges.emplace(begin, end);
  return false;
}

/// All together or none.
void broadcast_group_(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<torch::Tensor> memory;
  std::vector<Entry> entries;
  std::map<std::byte*, std::byte*> lent;
  for (const auto& item : tensors) {
    const std::string name = "broadcast.parameters." + item.key();
    memory.push_back(lendable_in_place(item.value(), name));
    if (is_among(memory.back(), lent)) memory.back() = memory.back().clone();  // tied parameters
    entries.push_back(lend(memory.back(), memory.back(), Operation::broadcast, name, process_set));
    entries.back().root = root;
  }
  if (entries.empty()) return;
  static_cast<void>(wait_for_all(hora.submit(std::move(entries)), device_among(memory)));
  for (std::size_t i = 0; i < memory.size(); ++i)
    static_cast<void>(write_back(tensors.items()[i].value(), memory[i]));
}

/// Where the first parameter lies.
torch::Device device_of(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return torch::kCPU;
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
  archive.load_from(stream, device_of(optimizer));
  optimizer.load(archive);
}

}  // namespace hora
