// SPDX-License-Identifier: Apache-2.0
// Host strings and hostfiles: users write them by hand.
#include "runner/launch/hosts.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& host : hora::hrun::parse_hostfile(text, "hosts")) {
      if (host.host.empty() || host.slots < 1) std::abort();
    }
  } catch (const hora::Error&) {
  }
  try {
    static_cast<void>(hora::hrun::parse_hosts(text));
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
