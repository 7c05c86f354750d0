// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/devices.h"

#include <hora/status.h>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

namespace hora {
namespace {

/// LibTorch's stable C interface, in its library for CUDA: sets the cudaStream_t that is the GPU's current
/// one; 0: good. c10's own function came with LibTorch 2.11, and c10/cuda's headers need a CUDA toolkit.
using CurrentStream = std::int32_t (*)(std::int32_t gpu, void** stream);
constexpr const char* kCurrentStream = "aoti_torch_get_current_cuda_stream";

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
  static const auto tell = reinterpret_cast<CurrentStream>(::dlsym(RTLD_DEFAULT, kCurrentStream));
  void* stream = nullptr;
  if (tell == nullptr || tell(device.index, &stream) != 0)
    throw Error(Code::unavailable, "LibTorch does not tell its current stream on " + name(device));
  return stream;
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
