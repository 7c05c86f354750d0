// SPDX-License-Identifier: Apache-2.0
#include "core/base/thread.h"

#include <hora/status.h>

#include <fmt/format.h>

namespace hora {

void throw_no_thread(const char* purpose, const std::error_code& why) {
  throw Error(Code::unavailable,
              fmt::format("the thread that {} cannot be started: {}; it needs memory for its stack (ulimit "
                          "-v, the limit of the container), and a process to count as (ulimit -u, pids.max)",
                          purpose, why.message()));
}

}  // namespace hora
