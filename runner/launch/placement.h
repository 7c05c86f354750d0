// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/generation_record.h"
#include "runner/launch/hosts.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// The numbers of a rank among all ranks, and its host. A value.
struct RankPlacement {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of its host
  int local_size = 1;
  int cross_rank = 0;  ///< of its host, among the hosts that have a rank with this local rank
  int cross_size = 1;
  int host = 0;  ///< its host, among those that have ranks
  bool operator==(const RankPlacement&) const = default;
};

/// The identity of the process that an elastic job starts as this rank. hrun counts processes from 1.
[[nodiscard]] constexpr elastic::MemberId first_member(int rank) {
  return static_cast<elastic::MemberId>(rank) + 1;
}

/// The ranks of one host; they follow each other. A value.
struct HostShare {
  std::string host;
  std::vector<RankPlacement> placements;
};

/// Puts ranks on hosts, host by host; a host that gets none is left out. With more ranks than slots each
/// host gets one more in turn, if `oversubscribe` allows that, and none more than its max_slots. Throws
/// Error(invalid_argument) that says how many there are.
[[nodiscard]] std::vector<HostShare> place(const std::vector<HostSlots>& hosts, int ranks,
                                           bool oversubscribe);

}  // namespace hora::hrun
