// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <chrono>
#include <map>
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

/// The ranks of an elastic job that have no process, and the times at which each gets another one.
///
/// The first failure of a rank costs no time: another process is started at once. After each further one the
/// rank rests, at first for `shortest_rest` and then for twice as long as before. If the process of a rank
/// has run for `longest_rest`, its failures are forgotten. A host of several likewise rests, after its third
/// failure, whichever of its ranks fail. Pure, without a clock. Not thread-safe.
class Vacancies {
 public:
  /// `hosts`: the host of each rank.
  Vacancies(std::vector<int> hosts, const ReplacementPolicy& policy);

  /// The process of this rank has failed. Returns when another one is to be started; nothing: never.
  std::optional<TimePoint> open(int rank, TimePoint now);
  /// The ranks of this host will get no other processes.
  void close_host(int host);

  /// The ranks for which a process is to be started now. They are vacant no more.
  [[nodiscard]] std::vector<int> fill(TimePoint now);
  /// The time at which `fill` has the next one.
  [[nodiscard]] TimePoint next() const;

 private:
  /// The failures of a rank or of a host.
  struct Failures {
    int count = 0;
    TimePoint last{};
  };
  /// Counts a failure. Returns the rest after it.
  [[nodiscard]] Clock::duration add(Failures& failures, int free, TimePoint now) const;

  const std::vector<int> hosts_;
  const ReplacementPolicy policy_;
  bool one_host_;
  int replacements_ = 0;
  std::map<int, TimePoint> open_;  // vacant ranks, and when they are to be filled
  std::map<int, Failures> of_rank_;
  std::map<int, Failures> of_host_;
};

}  // namespace hora::hrun
