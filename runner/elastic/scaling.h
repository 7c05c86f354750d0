// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/elastic/elastic_processes.h"
#include "runner/elastic/slots.h"
#include "runner/launch/placement.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// The number of processes of an elastic job: how many it is to have, which slots get one, and which
/// processes are to leave. The job is to have `size` members, and spares beside them, which wait. Not
/// thread-safe.
class Scaling {
 public:
  /// `shares`, `capacities`: see Slots. `size`: as many members as the job may have. Refers to `processes`.
  Scaling(ElasticProcesses& processes, const std::vector<HostShare>& shares,
          const std::vector<int>& capacities, const ReplacementPolicy& policy, int size, int spares)
      : processes_(processes),
        slots_(shares, capacities, policy),
        policy_(policy),
        size_(size),
        spares_(spares) {}

  [[nodiscard]] int size() const { return size_; }
  /// The slots of all hosts together.
  [[nodiscard]] int capacity() const { return slots_.capacity(); }
  /// The user wants this number of members.
  void set_size(int size);
  /// The host has so many slots from here on; 0: it is to have no processes. One that follows the last one is
  /// new.
  void set_capacity(int host, int slots);

  /// The process of a rank has ended. `as_asked`: it has left in order. Returns a sentence for the user,
  /// without its full stop, if its place stays empty for a while; else nothing.
  std::string vacate(int rank, bool as_asked, TimePoint now);
  /// The host is lost, and the processes of these ranks with it. Returns when it is tried again.
  TimePoint lose_host(int host, const std::vector<int>& ranks, TimePoint now);

  /// The ranks whose processes are to leave: those in slots that are no longer there, the last members of too
  /// many, and the last of too many that are no members.
  [[nodiscard]] std::vector<int> surplus() const;
  /// The places of processes that are to be started now, which take them.
  [[nodiscard]] std::vector<RankPlacement> take(TimePoint now);
  /// The time at which `take` may have another one.
  [[nodiscard]] TimePoint next() const { return missing() > 0 ? slots_.next() : TimePoint::max(); }

 private:
  [[nodiscard]] int missing() const {
    return size_ + spares_ - slots_.closed() - processes_.asking_to_go() - processes_.staying();
  }

  ElasticProcesses& processes_;
  Slots slots_;
  const ReplacementPolicy policy_;
  int size_;
  const int spares_;
};

}  // namespace hora::hrun
