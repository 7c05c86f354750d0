// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/links.h"

#include <memory>
#include <string>
#include <vector>

namespace hora {

/// Links of ranks that are threads of this process: connected pairs of Unix sockets, `streams` between any
/// two. They exist from the beginning, but only those that were required are given out.
std::vector<std::shared_ptr<tcp::Links>> paired_links(int ranks, int streams = 1,
                                                      const std::string& encryption = "control");

/// How many peers were required of links that come from there.
int count_required(const tcp::Links& links);

}  // namespace hora
