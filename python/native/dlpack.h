// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/device.h>
#include <hora/dtype.h>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora {

/// Another library's array, as it lends it: keeps it alive. A value.
struct LentArray {
  std::shared_ptr<void> keep;
  std::uintptr_t address = 0;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  Device device;
  bool contiguous = true;
};

/// What a capsule of DLPack holds, which is used up by it. Throws Error(invalid_argument) for what is no such
/// capsule, has elements that Hora does not know, or lies where Hora does not reach.
LentArray take_dlpack(const pybind11::capsule& capsule);

/// A capsule of DLPack ("dltensor") for contiguous elements in this memory, which it keeps alive.
pybind11::capsule give_dlpack(std::shared_ptr<std::byte> memory, Device device, DType dtype,
                              std::vector<std::int64_t> shape);

}  // namespace hora
