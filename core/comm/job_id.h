// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

#include <string>

namespace hora {

// Eight hexadecimal digits by which a job is known: to its ranks, in the names of their dumps, and to hrun.

/// Of a job that hrun has started: they follow from its secret, which hrun and all ranks have, and tell
/// nothing of it.
[[nodiscard]] std::string job_id(const Secret& secret);
/// Of a job, as its rank 0 makes it up: the former, or where hrun has not started it digits at random, as
/// other jobs may have the same secret.
[[nodiscard]] std::string job_id(const Config& config);

}  // namespace hora
