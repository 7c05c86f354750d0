// SPDX-License-Identifier: Apache-2.0
#include "runner/culprit.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace hora {
namespace {

constexpr std::chrono::seconds kAlmostAtOnce{1};

/// Signals by which a process ends because of what others did or did not do: it gives up, writes to somebody
/// who is gone, or has waited too long.
constexpr std::array<int, 3> kOfGrief{SIGABRT, SIGPIPE, SIGALRM};

/// Whether it was killed for a reason of its own, or by somebody outside. A shell that a rank is wrapped in
/// says so with 128 + signal; codes above those of all signals, as of exit(-1), are mere errors.
bool was_struck(const Ending& ending) {
  const int signal = ending.exit_code - 128;
  return signal > 0 && signal <= SIGRTMAX &&
         std::find(kOfGrief.begin(), kOfGrief.end(), signal) == kOfGrief.end();
}

}  // namespace

bool Culprit::accuse(int rank, const Ending& ending, TimePoint when) {
  const bool first = !rank_;
  if (first) first_ = when;
  const bool rather = was_struck(ending) && !was_struck(ending_) && when - first_ < kAlmostAtOnce;
  if (first || rather) {
    rank_ = rank;
    ending_ = ending;
  }
  return first;
}

}  // namespace hora
