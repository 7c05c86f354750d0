// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_buckets.h"

#include <map>

namespace hora {
namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t whole_lines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

std::vector<torch::Tensor> make_gradient_places(Runtime& hora, const std::vector<torch::Tensor>& parameters) {
  std::map<torch::ScalarType, std::size_t> sizes;
  for (const auto& parameter : parameters) sizes[parameter.scalar_type()] += whole_lines(parameter.nbytes());
  std::map<torch::ScalarType, std::shared_ptr<std::byte>> blocks;
  for (const auto& [dtype, bytes] : sizes) blocks[dtype] = hora.allocate(bytes);

  std::map<torch::ScalarType, std::size_t> used;
  std::vector<torch::Tensor> places;
  for (const auto& parameter : parameters) {
    const auto& block = blocks[parameter.scalar_type()];
    std::size_t& begin = used[parameter.scalar_type()];
    const auto strides = parameter.is_non_overlapping_and_dense()
                             ? parameter.strides().vec()
                             : torch::empty_like(parameter.detach()).strides().vec();
    places.push_back(torch::from_blob(
        block.get() + begin, parameter.sizes(), strides, [block](void*) {}, parameter.detach().options()));
    begin += whole_lines(parameter.nbytes());
  }
  return places;
}

}  // namespace hora
