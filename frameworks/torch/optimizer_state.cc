// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/optimizer_state.h"

#include <sstream>

namespace hora {
namespace {

torch::Device device_of(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return torch::kCPU;
}

}  // namespace

std::string bytes_of(torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.save_to(stream);
  return stream.str();
}

void load_bytes(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream, device_of(optimizer));
  optimizer.load(archive);
}

}  // namespace hora
