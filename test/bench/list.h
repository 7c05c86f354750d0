// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/bench/contenders.h"

namespace hora::bench {

/// The tensors of `options.list`, the last first, as backward() makes them; all of them are submitted, then
/// waited for. "arena" and "private": they are there when the clock starts. "behind": they are submitted
/// as DistributedOptimizer does, each as soon as it has been written, or where nothing can overlap
/// (Runtime::can_overlap) when all are; writing is timed, too; "produce": they are written, and nothing is
/// done with them. The runtime outlives them.
[[nodiscard]] Contenders list_contenders(Runtime& runtime, const Options& options);

}  // namespace hora::bench
