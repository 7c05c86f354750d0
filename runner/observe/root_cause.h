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

/// Finds the rank or host whose failure made the job fail. When one rank fails the others fail too, because
/// they miss it, and hrun may hear of these ends in any order.
///
/// The end that came first is the cause. There is one exception: a lost host, or a death by a signal, is the
/// cause rather than an error exit that came less than one second before it. SIGABRT, SIGPIPE and SIGALRM
/// count as error exits. A value.
class RootCause {
 public:
  /// Takes an end that is a failure, of a rank or host that was not told to end. Returns true for the first
  /// one. Of failures that have the same time, the one that is passed first counts as earlier.
  ///
  /// `standing`: a rank that is stopped at this time, as by SIGSTOP, and has not ended; the others may fail
  /// because they miss it. It becomes the cause if this is the first failure and an error exit. Later
  /// failures are compared with it as with any death by a signal.
  bool accuse(const Failure& failure, const std::optional<Failure>& standing = {});

  /// Takes a rank that has left the job in order, although others wait for an operation that it did not
  /// submit. That operation fails on them. If this rank also exits with an error, before or after them, it
  /// becomes the cause. It does not replace a death by a signal or a lost host, nor a rank that also left so.
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
