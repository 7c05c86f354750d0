// SPDX-License-Identifier: Apache-2.0
#include <hora/device.h>

#include <fmt/format.h>

namespace hora {

std::string name(Device device) {
  return device.kind == DeviceKind::host ? "cpu" : fmt::format("cuda:{}", device.index);
}

}  // namespace hora
