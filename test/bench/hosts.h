// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/comm/world.h"
#include "test/bench/contenders.h"
#include "test/bench/options.h"

#include <hora/config.h>

#include <memory>

namespace hora::bench {

/// Ranks of two hosts, or what passes for them, as a Runtime connects them.
[[nodiscard]] World connect_hosts(Config config);

/// "hora", the plane that was chosen; "half", the same elements with float16 on the wire and the conversions;
/// and "raw", the most that the link allows: as many bytes as an allreduce must move, over a socket for each
/// pair of ranks, in both directions at once and without anything else. A pair is a rank of one half of the
/// job and one of the other; with HORA_CPU_OPERATIONS=tcp, which keeps all ranks apart, any two. The hosts
/// outlive them.
[[nodiscard]] Contenders hosts_contenders(World& hosts, const Config& config, const Options& options);

}  // namespace hora::bench
