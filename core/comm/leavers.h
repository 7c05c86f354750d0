// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <fmt/format.h>

#include <optional>
#include <set>

namespace hora {

/// The ranks that have left the job, as far as a rank has heard: they will send nothing, and take nothing.
/// Not thread-safe.
class Leavers {
 public:
  Leavers(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  void add(int rank) { left_.insert(rank); }
  /// The reason why no rank will ever send to a receive of this source, or take messages that are sent there;
  /// nothing: one may.
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
