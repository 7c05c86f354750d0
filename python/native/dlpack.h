// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/device.h>
#include <hora/dtype.h>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// The tensor in a capsule of DLPack, which is used up by it. Throws Error(invalid_argument) for what is no
/// such capsule, has elements that Hora does not know, or lies where Hora does not reach.
LentArray take_dlpack(const pybind11::capsule& capsule);

/// Where an array on the host has its elements, side by side, while it stays as it is.
struct SeenArray {
  void* address = nullptr;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
};

/// An array as DLPack's C functions (`__dlpack_c_exchange_api__`, DLPack 1.3) describe it, much faster than
/// Python's. Nothing if its library does not have them, if its elements do not lie side by side on the host,
/// or if they are none that Hora knows. Raises nothing.
std::optional<SeenArray> see_on_host(pybind11::handle array);

/// A capsule of DLPack ("dltensor") for contiguous elements in this memory, which it keeps alive.
pybind11::capsule give_dlpack(std::shared_ptr<std::byte> memory, Device device, DType dtype,
                              std::vector<std::int64_t> shape);

}  // namespace hora
