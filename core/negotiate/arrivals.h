// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/message.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace hora {

/// The ranks of a subtree that ask for something by one ballot, and the times when they did. Refers to that
/// ballot.
struct Arrival {
  const RankSet& ranks;
  std::uint64_t heard;            ///< as in Ballot
  TimePoint since;                ///< when the first of them asked
  TimePoint came;                 ///< when the ballot came
  const std::vector<Late>& late;  ///< as in Ballot
};

/// All ranks of a subtree that have asked for one thing so far, and how late they were: the sum of several
/// arrivals. A value.
struct Arrivals {
  /// Ranks that are late by less than this are not noted in `late`.
  static constexpr std::chrono::milliseconds kNotable{1};

  RankSet asked;
  std::uint64_t heard = 0;  ///< the smallest Ballot::heard of all ballots
  TimePoint since;          ///< when the first of them asked
  TimePoint came;           ///< when the first ballot came
  std::vector<Late> late;   ///< how much later than the first the others asked, as in Ballot

  Arrivals() = default;
  explicit Arrivals(const Arrival& first)
      : asked(first.ranks), heard(first.heard), since(first.since), came(first.came), late(first.late) {}
  /// Adds the ranks of a further ballot.
  void add(const Arrival& arrival);
};

/// Adds `ranks`, which were late by `behind`, to a list of late ranks. If the list gets long, the least late
/// ranks are removed from it, because a ballot names only some ranks.
void add_late(std::vector<Late>& late, const RankSet& ranks, Clock::duration behind);

}  // namespace hora
