// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"

namespace hora::hrun {

/// Starts the ranks that the options describe, passes their output on, and ends them together. Returns the
/// exit code for hrun: that of the first rank that failed, 124 for a time-out, 128 + signal if hrun itself
/// was told to end. Throws Error(unavailable) if the ranks cannot be started; then none is left.
int run_job(const Options& options);

}  // namespace hora::hrun
