// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/host_ranks.h"

#include <memory>

namespace hora::hrun {

/// The ranks of this machine, as children of this process. Ready at once. Throws Error(invalid_argument) if
/// the plan cannot be carried out here, and Error(unavailable).
[[nodiscard]] std::unique_ptr<HostRanks> make_local_ranks(const HostPlan& plan);

}  // namespace hora::hrun
