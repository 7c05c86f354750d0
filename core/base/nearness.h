// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/cores.h"

#include <cstdint>
#include <string>

namespace hora {

/// The cache and the socket that all of some cores share. They are numbers from 1 up that differ where the
/// caches or sockets do, in one running system. 0: the cores share none, or the system does not say.
struct Nearness {
  std::uint32_t cache = 0;  ///< the last level that is not the whole machine's memory
  std::uint32_t socket = 0;

  bool operator==(const Nearness&) const = default;
};

/// Of these cores, as the system tells it in the files of this folder (Linux:
/// ABI/stable/sysfs-devices-system-cpu).
[[nodiscard]] Nearness nearness(const CoreSet& cores, const std::string& system = "/sys/devices/system/cpu");

}  // namespace hora
