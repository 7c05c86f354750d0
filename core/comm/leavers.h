// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <fmt/format.h>

#include <optional>
#include <set>

namespace hora {

/// The other ranks that have left the job, as far as this rank has heard. They send and receive no messages.
/// Not thread-safe.
class Leavers {
 public:
  Leavers(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  void add(int rank) { left_.insert(rank); }
  /// The error for a receive from `peer`, or a send to it, that can never complete; nothing if it still may.
  /// For kAnySource: all other ranks have left. The own rank never counts as left, so a rank that is alone
  /// may always receive.
  [[nodiscard]] std::optional<Status> loss(int peer) const {
    if (peer != kAnySource) {
      if (!left_.contains(peer) || peer == rank_) return std::nullopt;
      return Status{Code::aborted, fmt::format("rank {} has left the job (shutdown)", peer)};
    }
    if (ranks_ == 1 || static_cast<int>(left_.size()) < ranks_ - 1) return std::nullopt;
    return Status{Code::aborted, "all other ranks have left the job (shutdown)"};
  }

 private:
  int rank_;
  int ranks_;
  std::set<int> left_;  // others
};

}  // namespace hora
