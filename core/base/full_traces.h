// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora {

/// HORA_FULL_TRACES=1: stacks are told with the frames of libraries, too.
[[nodiscard]] bool full_traces();

}  // namespace hora
