// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/generation_record.h"
#include "core/elastic/resolve.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora::elastic {

/// Everything that the members of the next generation depend on. A value.
struct EndOfGeneration {
  GenerationRecord record{};             ///< the generation that has ended
  std::vector<Report> reports{};         ///< of all its members that live, by rank
  std::set<MemberId> leaving{};          ///< members that are to go
  std::vector<MemberInfo> candidates{};  ///< processes that wait to become members, the oldest first
  bool lost_any = false;    ///< a member has died; then candidates come only if there are too few
  bool made_steps = false;  ///< steps may have been made in the generation
  int least = 1;            ///< with fewer members the job pauses
  int most = 1;
  int hot_spares = 0;  ///< so many of `most` are to be hot spares
};

/// The next generation. A value.
struct NextGeneration {
  GenerationRecord record;
  std::vector<std::pair<MemberId, std::string>> out;  ///< members that live and are left out, and why
  bool state_is_lost = false;  ///< no process that lives has the state of the training; there is no record
};

/// Chooses the members of the next generation, and how many steps count. A pure function.
///
/// A member that is to go stays if nobody else has the state. Members that live and cannot reach each other:
/// see `cut_off`. If no step was ever made, the first member has the state by definition. Members of which
/// one does not take others in (Report::takes_in) go on without new ones, and do not pause, until they do.
[[nodiscard]] NextGeneration choose_next(const EndOfGeneration& end);

/// How many of the members are hot spares, if there are to be up to `most` members, `hot_spares` of them hot
/// spares.
[[nodiscard]] inline int hot_spares_of(int members, int most, int hot_spares) {
  return std::max(0, members - (most - hot_spares));
}

/// Of members that live but cannot reach each other, those that have to go: of two hosts the one with more
/// such pairs, or the one whose ranks come later; within a host the member with the higher rank.
[[nodiscard]] std::set<MemberId> cut_off(const GenerationRecord& record, const std::vector<Report>& reports);

}  // namespace hora::elastic
