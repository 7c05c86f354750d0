// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/lane.h"
#include "core/comm/membership.h"
#include "core/comm/messenger.h"
#include "core/comm/readiness_vote.h"

#include <memory>
#include <string>
#include <vector>

namespace hora {

struct NcclModule;

/// One rank as the others know it, and as error messages name it. A value.
struct Member {
  int rank = 0;
  int pid = 0;
  std::string host;
  /// Begins with its machine's boot_id(). Equal to ours: `pid` means that process here, too.
  std::string pid_space;
  /// Numeric ones, at which the ranks that have met over a network have seen it; empty for other ranks.
  std::vector<std::string> addresses{};

  bool operator==(const Member&) const = default;
};

/// "rank 2 (pid 4711 on node7)"
[[nodiscard]] std::string describe(const Member& member);
/// "rank 3", "ranks 0 and 7", "ranks 0-2, 7": ascending ranks as messages name them.
[[nodiscard]] std::string describe_ranks(const std::vector<int>& ranks);

/// The memory that a rank shares with the others of its host, as its backend knows it. A rank that goes on
/// with another generation of its job takes it along.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
};

/// All ranks of a job, connected. `connect` makes it, and a Session owns it.
struct World {
  Membership membership;
  std::string job;              ///< eight hexadecimal digits, the same on all ranks
  std::vector<Member> members;  ///< by rank
  std::unique_ptr<Control> control;
  std::shared_ptr<HostMemory> host_memory;  ///< null: this rank shares none
  Lane lane;
  std::unique_ptr<ReadinessVote> vote;  ///< null: not all ranks share memory
  std::unique_ptr<Messenger> messenger;
  const NcclModule* gpu_module = nullptr;  ///< what GPUs are used with; null: libhora_nccl.so
};

}  // namespace hora
