// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace hora {

/// The kind of memory that a tensor lies in. The numbers travel between ranks: append only.
enum class DeviceKind : std::uint8_t { host, cuda };
inline constexpr int kDeviceKinds = 2;

/// The owner of the memory that a tensor lies in: the host, or the GPU of this number, as
/// CUDA_VISIBLE_DEVICES leaves them. A value.
struct Device {
  DeviceKind kind = DeviceKind::host;
  int index = 0;  ///< of a host 0

  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:1": PyTorch's names.
[[nodiscard]] std::string name(Device device);

}  // namespace hora
