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
/// and "raw", the most that the link allows: each rank of one half of the job and one of the other send each
/// other, at the same time and without anything else, as many bytes as an allreduce must move between the
/// halves. The hosts outlive them.
[[nodiscard]] Contenders hosts_contenders(World& hosts, const Options& options);

}  // namespace hora::bench
