// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/rank_set.h"
#include "core/negotiate/message.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// A full request that some members of a group make alike. A value.
struct Voice {
  RankSet places;
  std::shared_ptr<const Request> request;
};

/// The decision of all ranks of a group about one tensor, given what they ask for. `voices` is not empty, and
/// has every place once, the voice with the lowest place first, and equal names. Equal requests make a
/// decision; unequal ones a decision with Code::mismatch. Its message names the tensor, the values and the
/// ranks: "'w': tensor differs between ranks: float32[4] on ranks 0-2, float32[5] on rank 3". `members`: the
/// ranks, by place. A pure function.
[[nodiscard]] Decision agree(std::span<const Voice> voices, const std::vector<int>& members);

/// The ranks that have these places.
[[nodiscard]] std::vector<int> ranks_of(const RankSet& places, const std::vector<int>& members);

/// The places of these ranks; those that are no members have none.
[[nodiscard]] RankSet places_of(const std::vector<int>& ranks, const std::vector<int>& members);

/// The request of a rank that has joined, where another rank asks for `like`; nothing if that cannot be done
/// without the rank. A pure function.
[[nodiscard]] std::optional<Request> stand_in(const Request& like);

/// The decision of all ranks about a tensor, if the members at the places `absent` have joined and so do not
/// ask for it. `voices` has all other places once, otherwise it is as in `agree`. An operation that cannot be
/// done without data of a member fails with Code::mismatch. `divide_by_initial_size`: an average is divided
/// by the number of all members, not only of those that ask. A pure function.
[[nodiscard]] Decision agree_without(std::vector<Voice> voices, const RankSet& absent,
                                     bool divide_by_initial_size, const std::vector<int>& members);

/// The decision for a tensor that fails on every rank; `text` says why. A pure function.
[[nodiscard]] Decision failure(const Request& request, Code code, const std::string& text);

}  // namespace hora
