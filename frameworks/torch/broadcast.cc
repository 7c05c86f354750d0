// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

#include <sstream>

namespace hora {

void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root) {
  const torch::NoGradGuard no_grad;
  std::vector<TensorHandle> handles;
  std::vector<std::pair<torch::Tensor, torch::Tensor>>
      copies;  // of what is not contiguous: the tensor, its copy
  for (const auto& item : tensors) {
    torch::Tensor tensor = item.value().detach();
    if (!tensor.is_contiguous()) {
      copies.emplace_back(tensor, tensor.contiguous());
      tensor = copies.back().second;
    }
    handles.push_back(broadcast_async_(hora, tensor, root, "parameters." + item.key()));
  }
  for (const auto& handle : handles) static_cast<void>(handle.wait());
  for (auto& [tensor, copy] : copies) tensor.copy_(copy);
}

void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root) {
  broadcast_parameters(hora, module.named_parameters(), root);
  broadcast_parameters(hora, module.named_buffers(), root);
}

// The state of each kind of optimizer has its own type; LibTorch's archives know them all, with the options.
void broadcast_optimizer_state(Runtime& hora, torch::optim::Optimizer& optimizer, int root) {
  std::string bytes;
  if (hora.rank() == root) {
    std::ostringstream stream;
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(stream);
    bytes = stream.str();
  }
  torch::Tensor length = torch::tensor(static_cast<std::int64_t>(bytes.size()));
  broadcast_(hora, length, root, "optimizer_state.length");
  bytes.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  torch::Tensor content =
      torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  broadcast_(hora, content, root, "optimizer_state.bytes");
  if (hora.rank() == root) return;
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

}  // namespace hora
