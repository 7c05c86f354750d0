// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_buckets.h"

#include "frameworks/torch/devices.h"

#include <map>
#include <string>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t whole_lines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

void give_places(Runtime& hora, const std::vector<Parameter*>& parameters) {
  const auto block_of = [](const torch::Tensor& parameter) {
    return std::pair(parameter.scalar_type(), parameter.device().str());
  };
  struct Block {
    Device device;
    std::size_t bytes = 0;
    std::shared_ptr<std::byte> memory = {};
    std::size_t used = 0;
  };
  std::map<std::pair<torch::ScalarType, std::string>, Block> blocks;
  for (const Parameter* each : parameters) {
    Block& block = blocks[block_of(each->tensor)];
    block.device = lies_on(each->tensor);
    block.bytes += whole_lines(each->tensor.nbytes());
  }
  for (auto& [kind, block] : blocks) block.memory = hora.allocate(block.bytes, block.device);

  for (Parameter* each : parameters) {
    const torch::Tensor& parameter = each->tensor;
    Block& block = blocks[block_of(parameter)];
    const auto strides = parameter.is_non_overlapping_and_dense()
                             ? parameter.strides().vec()
                             : torch::empty_like(parameter.detach()).strides().vec();
    const auto options = parameter.detach().options();
    each->place = at::from_blob(
        block.memory.get() + block.used, parameter.sizes(), strides, [memory = block.memory](void*) {},
        options, options.device());
    block.used += whole_lines(parameter.nbytes());
  }
}

}  // namespace hora
