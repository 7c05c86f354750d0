// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/agent_connection.h"
#include "runner/launch/host_ranks.h"

#include <memory>

namespace hora::hrun {

/// The ranks of another machine. Starts the program that leads there; it is ready when the agent has answered
/// and can carry the plan out, and has failed if that does not come true before the deadline, `timeout` from
/// now. Throws Error(unavailable) if the program cannot be started.
[[nodiscard]] std::unique_ptr<HostRanks> make_remote_ranks(const Road& road, const HostPlan& plan,
                                                           std::chrono::milliseconds timeout, TimePoint now);

}  // namespace hora::hrun
