// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace hora {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace hora
