// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/leader.h"
#include "core/elastic/message.h"
#include "runner/elastic/elastic_processes.h"
#include "runner/elastic/generation_orders.h"
#include "runner/elastic/leader_orders.h"
#include "runner/elastic/scaling.h"
#include "runner/launch/placement.h"
#include "runner/launch/process.h"

#include <hora/config.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora::hrun {

/// The part of hrun in the changes of generations of an elastic job (core/elastic/README.md). It asks the
/// Leader, makes orders of its actions, and decides which processes there are to be. It has no sockets and no
/// clock. Not thread-safe.
///
/// A rank keeps the number that it has at the start, in calls, in `lines` and in the output of hrun. A
/// process that replaces another one gets its number. Messages to members name ranks by their numbers in the
/// generation that ends.
///
/// The job is to have as many processes as `--max-np` or `hrun resize` says, and spares beside them. While it
/// has fewer, others are started in free slots. When it has more, or a host is to be left, processes are
/// asked to leave, and do so before the next step.
class Generations {
 public:
  /// `shares`: the ranks that are started. `capacities`: the slots of each host, also of those without ranks.
  /// `start`: when.
  Generations(const std::vector<HostShare>& shares, const std::vector<int>& capacities,
              const GenerationPolicy& policy, GenerationFacts facts, TimePoint start);
  Generations(const Generations&) = delete;
  Generations& operator=(const Generations&) = delete;

  // Events, in the order in which hrun hears of them.

  [[nodiscard]] GenerationOrders hear(int rank, const elastic::MemberMessage& message, TimePoint now);
  /// The process of a rank has ended, and all its messages were heard. `common`: most ranks have ended with
  /// the same error. `when`: when that was noticed.
  [[nodiscard]] GenerationOrders ended(int rank, const Ending& ending, bool common, TimePoint when,
                                       TimePoint now);
  /// `why`: "host b is lost: no answer".
  [[nodiscard]] GenerationOrders lose_host(int host, const std::string& why, TimePoint now);
  void stopped(int rank, TimePoint now);
  void resumed(int rank, TimePoint now);
  [[nodiscard]] GenerationOrders tick(TimePoint now);
  /// The user wants this number of ranks. Throws Error(invalid_argument) if the job cannot have it, and
  /// Error(unavailable) if its ranks do not change now.
  [[nodiscard]] GenerationOrders resize(int ranks, TimePoint now);
  /// The host has so many slots from here on; with 0 all processes leave it. A host that follows the last one
  /// is a new one.
  [[nodiscard]] GenerationOrders set_capacity(int host, int slots, TimePoint now);
  /// hrun has told all ranks to end. Ends are no losses from here on.
  void expect_ends() { ends_expected_ = true; }

  /// The time of the next `tick`. A `tick` that comes a second late, because hrun stood still itself, takes
  /// nobody for silent: the next one comes when there was time to hear the messages that wait.
  [[nodiscard]] TimePoint next() const {
    const TimePoint next_start = can_change() ? scaling_.next() : TimePoint::max();
    return std::max(std::min({leader_.next(), next_start, next_kill_aside()}), catching_up_);
  }

  /// How a rank has ended, for the user: also why, if it was killed because the Leader asked for it.
  [[nodiscard]] std::string how(int rank, const Ending& ending) const {
    return processes_.at(rank).how(ending);
  }
  /// The last generation; 0: there was none.
  [[nodiscard]] std::uint64_t generation() const { return orders_.begun(); }
  [[nodiscard]] const LostRanks& lost() const { return orders_.lost(); }
  /// The ranks of which each could still end well.
  [[nodiscard]] std::vector<int> ranks_left() const { return processes_.ranks_left(); }
  /// The slots of all hosts together.
  [[nodiscard]] int capacity() const { return scaling_.capacity(); }
  /// Whether a member stays that is on one of these hosts.
  [[nodiscard]] bool any_stays_on(const std::set<int>& hosts) const {
    return processes_.any_member_stays_on(hosts);
  }
  /// Throws Error(unavailable) if the ranks of the job do not change now.
  void require_change() const;
  [[nodiscard]] const elastic::GenerationRecord& record() const { return leader_.record(); }
  /// The rank whose process is rank 0 of the last generation; -1: there was none.
  [[nodiscard]] int first_rank() const {
    return record().members.empty() ? -1 : processes_.rank_of(record().members.front().id);
  }
  /// The last change that is over; nothing: there was none.
  [[nodiscard]] const std::optional<ChangeReport>& last_change() const { return orders_.changes().last(); }
  /// All that are over.
  [[nodiscard]] std::vector<ChangeSummary> changes() const { return orders_.changes().summary(); }

 private:
  [[nodiscard]] bool is_ending() const {
    return finished_ || ends_expected_ || gave_up_ || leader_.phase() == elastic::Leader::Phase::over;
  }
  [[nodiscard]] ChangeCause cause_of(int rank, const elastic::MemberMessage& message) const;
  [[nodiscard]] TimePoint next_kill_aside() const;
  void kill_aside(TimePoint now, GenerationOrders& orders);
  void adjust(TimePoint now, GenerationOrders& orders);
  void ask_to_go(int rank, TimePoint now, GenerationOrders& orders);
  [[nodiscard]] bool can_change() const { return orders_.begun() > 0 && !is_ending(); }
  void begin_with_those_left(const ChangeCause& cause, TimePoint now, GenerationOrders& orders);
  void end_if_it_cannot_begin(GenerationOrders& orders) const;
  [[nodiscard]] bool cannot_begin() const;

  const GenerationPolicy policy_;
  ElasticProcesses processes_;
  elastic::Leader leader_;
  Scaling scaling_;
  LeaderOrders orders_;
  TimePoint catching_up_{};  // until then no silence counts
  bool ends_expected_ = false;
  bool finished_ = false;  // the training has ended
  bool gave_up_ = false;   // the job cannot go on
};

}  // namespace hora::hrun
