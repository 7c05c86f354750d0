// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/find_membership.h"
#include "core/runtime/connect.h"

namespace hora {

/// Connects the ranks of the job that the settings describe. Knobs that all ranks have alike become rank 0's
/// in `config`. Throws what `connect` and the source throw.
inline World join_job(Config& config) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  return connect(find_membership(config, deadline), config, deadline);
}

}  // namespace hora
