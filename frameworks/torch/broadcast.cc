// SPDX-License-Identifier: Apache-2.0
#include <hora/alike.h>
#include <hora/torch.h>

#include "frameworks/torch/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace hora {

void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<Item> items;
  for (const auto& item : tensors) {
    const DType dtype = dtype_of(item.value(), "parameters." + item.key());
    items.push_back({item.key(), fmt::format("{}[{}]", name(dtype), fmt::join(item.value().sizes(), ","))});
  }
  require_alike(hora, "parameters.alike", "the parameters", items, process_set);
  std::vector<TensorHandle> handles;
  for (const auto& item : tensors) {
    torch::Tensor tensor = item.value();
    handles.push_back(broadcast_async_(hora, tensor, root,
                                       {.name = "parameters." + item.key(), .process_set = process_set}));
  }
  for (const auto& handle : handles) static_cast<void>(handle.wait());
}

void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root, int process_set) {
  broadcast_parameters(hora, module.named_parameters(), root, process_set);
  broadcast_parameters(hora, module.named_buffers(), root, process_set);
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
