// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/devices.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace hora {
namespace {

c10::Stream stream_on(const torch::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

Device lies_on(const torch::Tensor& tensor) {
  if (!tensor.is_cuda()) return {};
  return {DeviceKind::cuda, tensor.device().index()};
}

Device device_among(torch::TensorList tensors) {
  for (const auto& tensor : tensors) {
    const Device device = lies_on(tensor);
    if (device.kind != DeviceKind::host) return device;
  }
  return {};
}

void* current_stream(Device device) {
  if (device.kind == DeviceKind::host) return nullptr;
  const torch::Device gpu(torch::kCUDA, static_cast<c10::DeviceIndex>(device.index));
  return c10::impl::VirtualGuardImpl(torch::kCUDA).getStreamNativeHandle(stream_on(gpu));
}

torch::Tensor used_here(torch::Tensor tensor) {
  if (tensor.defined() && tensor.is_cuda()) tensor.record_stream(stream_on(tensor.device()));
  return tensor;
}

std::function<torch::Tensor(const std::vector<std::int64_t>& shape)> maker_like(const torch::Tensor& like) {
  if (!like.is_cuda()) {
    return [options = like.options()](const std::vector<std::int64_t>& shape) {
      return torch::empty(shape, options);
    };
  }
  return
      [options = like.options(), stream = stream_on(like.device())](const std::vector<std::int64_t>& shape) {
        const c10::StreamGuard guard(stream);
        return torch::empty(shape, options);
      };
}

}  // namespace hora
