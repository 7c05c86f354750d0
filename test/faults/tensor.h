// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/faults/fault.h"

#include <hora/hora.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace hora {

constexpr int kSamples = 64;  // of an output, by which it is seen to be filled

/// A tensor of this program's, in memory of its plane.
struct Tensor {
  Tensor(Runtime& runtime, const Part& part, std::size_t count, Device where = {}) : elements(count) {
    if (part.plane == "nccl" && count > 1) where = {DeviceKind::cuda, part.rank};
    device = where;
    if (device.kind == DeviceKind::host) {
      auto owned = std::make_shared<std::vector<float>>(2 * count);
      input = owned->data();
      memory = owned;
    } else {
      auto owned = runtime.allocate(2 * count * sizeof(float), device);
      input = reinterpret_cast<float*>(owned.get());
      memory = owned;
    }
    output = input + count;
    std::fill_n(input, count, 1.0F);
    std::fill_n(output, count, 0.0F);
  }

  std::size_t elements;
  Device device;
  std::shared_ptr<void> memory;
  float* input;
  float* output;
};

inline Entry entry_of(const std::string& name, const Tensor& tensor) {
  Entry entry;
  entry.name = name;
  entry.shape = {static_cast<std::int64_t>(tensor.elements)};
  entry.device = tensor.device;
  entry.input = tensor.input;
  entry.output = tensor.output;
  entry.op = ReduceOp::sum;
  return entry;
}

inline Entry broadcast_of(const std::string& name, const Tensor& tensor) {
  Entry entry = entry_of(name, tensor);
  entry.operation = Operation::broadcast;
  return entry;
}

/// How many of the samples of an output have been written.
inline int filled(const Tensor& tensor) {
  int count = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const volatile float* place = tensor.output + i * (tensor.elements - 1) / (kSamples - 1);
    if (*place != 0.0F) ++count;
  }
  return count;
}

}  // namespace hora
