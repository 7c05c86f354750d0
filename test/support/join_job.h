// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/membership_source.h"
#include "core/runtime/connect.h"

namespace hora {

/// Connects the ranks of the job that the settings describe. Knobs that all ranks have alike become rank 0's
/// in `config`. Throws what `connect` and the source throw.
inline World join_job(Config& config) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  return connect(make_membership_source(config)->next(deadline), config, deadline);
}

}  // namespace hora
