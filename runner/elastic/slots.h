// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/launch/placement.h"

#include <chrono>
#include <optional>
#include <vector>

namespace hora::hrun {

/// The rules by which processes of an elastic job are replaced. A value.
struct ReplacementPolicy {
  int most = 0;  ///< --max-replacements; after so many no process is replaced
  /// --blacklist-cooldown-range: how long a rank rests that has failed twice, and the longest rest.
  std::chrono::milliseconds shortest_rest{10'000};
  std::chrono::milliseconds longest_rest{600'000};
};

/// The slots of an elastic job: the places on its hosts, each for one process. The rank is the number of a
/// slot that has had a process, and the slot keeps it.
///
/// The first failure of a process costs no time: the slot is free at once. After each further one the slot
/// rests, at first for `shortest_rest` and then for twice as long as before. If its process has run for
/// `longest_rest`, its failures are forgotten. A host of several likewise rests, after its third failure,
/// whichever of its slots fail; and after its loss. Pure, without a clock. Not thread-safe.
class Slots {
 public:
  /// `shares`: the ranks that have processes now. `capacities`: how many slots each host has; hosts without
  /// ranks are among them, the later ones.
  Slots(const std::vector<HostShare>& shares, const std::vector<int>& capacities,
        const ReplacementPolicy& policy);

  // Hosts.

  /// Adds a host. Returns its number.
  int add_host(int capacity);
  /// The host has so many slots from here on; 0: it is to have no processes.
  void set_capacity(int host, int capacity) { at(host).capacity = capacity; }
  [[nodiscard]] int hosts() const { return static_cast<int>(hosts_.size()); }
  /// The ranks with processes in slots that their hosts do not have any more.
  [[nodiscard]] std::vector<int> surplus() const;

  // Processes that end.

  /// The rest of a slot after a failure.
  struct Rest {
    TimePoint until;
    bool of_host = false;  ///< as its host fails again and again
  };
  /// That of this rank has failed. Returns when the slot may have another one; nothing: it will have none, as
  /// there were enough replacements.
  std::optional<Rest> fail(int rank, TimePoint now);
  /// The process of this rank has left because the job got smaller.
  void release(int rank) { of(rank).taken = false; }
  /// The process of this rank has left, and nobody takes its place.
  void close(int rank);
  /// The process of this rank is gone with its host. Another one takes its place, unless there were enough
  /// replacements.
  void replace(int rank);
  /// The host is lost, or could not be reached. Returns when it is tried again.
  TimePoint lose_host(int host, TimePoint now);
  /// Slots whose process has left, or has failed too often, are free again.
  void open_all();

  // Processes that start.

  /// Takes up to `count` slots that are free and do not rest, those that have had processes first. Returns
  /// the places of the new processes.
  [[nodiscard]] std::vector<RankPlacement> take(int count, TimePoint now);
  /// How many slots of the hosts stay empty.
  [[nodiscard]] int closed() const;
  [[nodiscard]] int capacity() const;
  /// The time at which a slot has rested, and `take` has it.
  [[nodiscard]] TimePoint next() const;

 private:
  /// The failures of a slot or of a host.
  struct Failures {
    int count = 0;
    TimePoint rests_until{};  ///< since when its last process has run, at most
  };
  struct Slot {
    RankPlacement placement;
    bool taken = true;
    bool closed = false;
    Failures failures{};
  };
  struct Host {
    int capacity = 0;
    int slots = 0;  ///< that have had processes
    Failures failures{};
  };
  [[nodiscard]] Slot& of(int rank) { return slots_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Host& at(int host) { return hosts_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] const Host& at(int host) const { return hosts_[static_cast<std::size_t>(host)]; }
  /// Counts a failure, after which the slot or the host rests unless it is one of the first `free`.
  void add(Failures& failures, int free, TimePoint now) const;
  /// Whether a process may be put there once it has rested.
  [[nodiscard]] bool is_free(const Slot& slot) const {
    return !slot.taken && !slot.closed && slot.placement.local_rank < at(slot.placement.host).capacity;
  }
  [[nodiscard]] TimePoint rests_until(const Slot& slot) const;
  bool count_replacement();
  RankPlacement make_slot(int host);

  const ReplacementPolicy policy_;
  std::vector<Slot> slots_;  // by rank
  std::vector<Host> hosts_;
  int replacements_ = 0;
};

}  // namespace hora::hrun
