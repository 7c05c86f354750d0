// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/agent_connection.h"
#include "runner/launch/host_ranks.h"

#include <memory>

namespace hora::hrun {

/// Makes the ranks of another machine, and starts the program that leads there. They are ready when the agent
/// there has answered that it can carry out `plan`. They fail if it does not answer before the deadline,
/// which is `timeout` after `now`. Throws Error(unavailable) if the program cannot be started.
[[nodiscard]] std::unique_ptr<HostRanks> make_remote_ranks(const RemoteHost& remote, const HostPlan& plan,
                                                           std::chrono::milliseconds timeout, TimePoint now);

}  // namespace hora::hrun
