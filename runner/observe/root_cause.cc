// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/root_cause.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kAlmostAtOnce{1};

/// Signals by which a process ends because of what others did or did not do: it gives up, writes to somebody
/// who is gone, or has waited too long.
constexpr std::array<int, 3> kOfGrief{SIGABRT, SIGPIPE, SIGALRM};

/// Whether it was killed for a reason of its own, or by somebody outside, as a host is that is lost. A shell
/// that a rank is wrapped in says so with 128 + signal; codes above those of all signals, as of exit(-1), are
/// mere errors.
bool was_struck(const Failure& failure) {
  const int signal = failure.ending.exit_code - 128;
  return failure.rank < 0 || (signal > 0 && signal <= SIGRTMAX &&
                              std::find(kOfGrief.begin(), kOfGrief.end(), signal) == kOfGrief.end());
}

/// Whether `one` is rather to blame than `other`, who was accused before.
bool rather(const Failure& one, const Failure& other) {
  if (was_struck(one) == was_struck(other)) return one.when < other.when;
  if (was_struck(one)) return one.when - other.when < kAlmostAtOnce;
  return other.when - one.when >= kAlmostAtOnce;
}

}  // namespace

bool RootCause::accuse(const Failure& failure, const std::optional<Failure>& standing) {
  const bool first = !failure_;
  accused_.push_back(failure);
  if (first && standing && !was_struck(failure)) {
    failure_ = standing;
    return true;
  }
  if (first || rather(failure, *failure_)) failure_ = failure;
  prefer_who_left_early();
  return first;
}

void RootCause::left_early(int rank) {
  left_early_.insert(rank);
  prefer_who_left_early();
}

/// Its end comes after those of the others, as it waits for them in `shutdown`.
void RootCause::prefer_who_left_early() {
  if (!failure_ || was_struck(*failure_) || left_early_.contains(failure_->rank)) return;
  const auto early = std::find_if(accused_.begin(), accused_.end(), [this](const Failure& one) {
    return left_early_.contains(one.rank) && !was_struck(one);
  });
  if (early != accused_.end()) failure_ = *early;
}

}  // namespace hora::hrun
