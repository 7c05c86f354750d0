// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora::hrun {

/// The work of `hrun --agent`: the ranks of this machine for an hrun elsewhere. That hrun speaks to it over
/// standard input and output as runner/launch/agent_message.h says. Ends them all when that connection ends
/// or falls silent. Returns the exit code. Throws Error if it cannot even begin.
int run_agent(int in, int out);

}  // namespace hora::hrun
