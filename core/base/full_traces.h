// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora {

/// HORA_FULL_TRACES=1: stacks are told with the frames of libraries, too.
[[nodiscard]] bool full_traces();

/// Whether stderr is the pipe with which hrun has started this process (HORA_STDERR), and nothing else.
[[nodiscard]] bool launcher_reads_stderr();

}  // namespace hora
