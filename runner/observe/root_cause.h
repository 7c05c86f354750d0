// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/launch/process.h"

#include <optional>
#include <set>
#include <vector>

namespace hora::hrun {

/// The rank or host that failed, and how. A value.
struct Failure {
  int rank = 0;  ///< -1: it is a whole host that was lost
  int host = 0;
  Ending ending;
  TimePoint when{};  ///< when its end was noticed there, by this machine's clock
};

/// The rank, or the host, that is the reason that a job failed. When one fails the others do, too, because
/// they miss it. hrun may hear of ends that are almost at once, and of those of other machines, in any order.
/// A value.
class RootCause {
 public:
  /// A rank or host ended badly, without having been told to end. Of those that did so at one time, tell
  /// first the one that is known to have been the first. `standing`: the rank that was stopped before, and
  /// stands still; others that miss it end because of that. True if none was accused before.
  bool accuse(const Failure& failure, const std::optional<Failure>& standing = {});

  /// It has left the job in order though others wait for an operation of its, which fails on them: if it ends
  /// badly itself, it is the reason that they do.
  void left_early(int rank);

  [[nodiscard]] bool known() const { return failure_.has_value(); }
  /// Once it is known.
  [[nodiscard]] const Failure& failure() const { return *failure_; }

 private:
  void prefer_who_left_early();

  std::optional<Failure> failure_;
  std::vector<Failure> accused_;
  std::set<int> left_early_;  // ranks
};

}  // namespace hora::hrun
