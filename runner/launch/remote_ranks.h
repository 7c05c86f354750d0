// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/host_ranks.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora::hrun {

/// How to reach a host. A value.
struct Road {
  std::string host;                  ///< as the user calls it
  std::vector<std::string> command;  ///< starts an agent there, with its standard input and output connected
  /// Why there is no agent: from what that program wrote to stderr, and its exit code.
  std::function<std::string(const std::string& words, int exit_code)> explain;
};

/// The ranks of another machine. Starts the program that leads there; it is ready when the agent has answered
/// and can carry the plan out, and has failed if that does not come true before the deadline, `timeout` from
/// now. Throws Error(unavailable) if the program cannot be started.
[[nodiscard]] std::unique_ptr<HostRanks> make_remote_ranks(const Road& road, const HostPlan& plan,
                                                           std::chrono::milliseconds timeout, TimePoint now);

}  // namespace hora::hrun
