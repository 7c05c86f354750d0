// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hora {

/// Runs the commands of a shell, then `body`, on a thread that has a network of its own: nothing but a
/// loopback that is down. Whether that was possible: it takes root, and iproute2.
inline bool run_in_own_network(const std::vector<std::string>& commands, const std::function<void()>& body) {
  bool possible = true;
  std::thread([&] {
    possible = ::unshare(CLONE_NEWNET) == 0;  // of this thread alone
    for (const auto& command : commands) possible = possible && std::system(command.c_str()) == 0;
    if (possible) body();
  }).join();
  return possible;
}

}  // namespace hora
