// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/message.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace hora {

/// Ranks of a subtree that ask for something together. Refers to the ballot that they ask with.
struct Arrival {
  const RankSet& ranks;
  std::uint64_t heard;            ///< as in Ballot
  TimePoint since;                ///< the first of them asked
  TimePoint came;                 ///< the ballot came
  const std::vector<Late>& late;  ///< as in Ballot
};

/// The ranks of a subtree that have asked for one thing, and how late they were. A value.
struct Arrivals {
  /// Less than that is not worth a note of lateness.
  static constexpr std::chrono::milliseconds kNotable{1};

  RankSet asked;
  std::uint64_t heard = 0;  ///< of all ballots, the fewest
  TimePoint since;          ///< the first of them asked
  TimePoint came;           ///< the first ballot came
  std::vector<Late> late;   ///< behind the first, as in Ballot

  Arrivals() = default;
  explicit Arrivals(const Arrival& first)
      : asked(first.ranks), heard(first.heard), since(first.since), came(first.came), late(first.late) {}
  void add(const Arrival& arrival);
};

/// Adds ranks that were late. A long list loses the ranks that were least late, because a ballot names only
/// some.
void add_late(std::vector<Late>& late, const RankSet& ranks, Clock::duration behind);

}  // namespace hora
