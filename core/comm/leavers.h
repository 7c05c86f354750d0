// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/delivery.h"
#include "core/comm/matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace hora {

/// The other ranks that have left the job, as far as this rank has heard. They send and receive no messages.
/// Not thread-safe.
class Leavers {
 public:
  Leavers(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  void add(int rank) { left_.insert(rank); }
  /// The error for a receive from this rank, or a send to it, that can never complete; nothing if it still
  /// may. The own rank never counts as left.
  [[nodiscard]] std::optional<Status> loss(int peer) const {
    if (!left_.contains(peer) || peer == rank_) return std::nullopt;
    return Status{Code::aborted, fmt::format("rank {} has left the job (shutdown)", peer)};
  }
  /// The same for a receive. From any source: all other ranks have left, of the job or of the process set. A
  /// rank that is alone there may always receive.
  [[nodiscard]] std::optional<Status> loss(const Wanted& wanted) const {
    if (wanted.source != kAnySource) return loss(wanted.source);
    const auto& members = wanted.members;
    if (!members.empty()) {
      const bool all_left = members.size() > 1 &&
                            std::all_of(members.begin(), members.end(),
                                        [this](int rank) { return rank == rank_ || left_.contains(rank); });
      if (!all_left) return std::nullopt;
      return Status{Code::aborted, "all other ranks of the process set have left the job (shutdown)"};
    }
    if (ranks_ == 1 || static_cast<int>(left_.size()) < ranks_ - 1) return std::nullopt;
    return Status{Code::aborted, "all other ranks have left the job (shutdown)"};
  }

  /// Ends the receives that can never complete.
  template <typename Arrival>
  void fail_lost(Matching<Arrival>& matching, Calls& calls) const {
    for (auto& lost :
         matching.give_up([this](const Incoming& waiting) { return loss(waiting.wanted).has_value(); })) {
      calls.emplace_back([done = std::move(lost.done), why = *loss(lost.wanted)] { done(why, nullptr); });
    }
  }

 private:
  int rank_;
  int ranks_;
  std::set<int> left_;  // others
};

}  // namespace hora
