// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

namespace hora {

/// The members of a group that ask for nothing more: those that have joined, and those that have left. The
/// Coordinator finds out here whether a tensor still waits for a member. Members are named by their places.
///
/// A member that has joined takes part in operations without asking for them, until all have joined. A member
/// that has left takes part in nothing, so a tensor that it never asked for can only fail. A join itself
/// needs the request of every member. *Engine only.*
class Absences {
 public:
  explicit Absences(RankSet everybody) : everybody_(std::move(everybody)) {}

  /// Notes that these members have joined with this request. The members of the last call count as the last
  /// to join.
  void join(const RankSet& places, const Request& request);
  /// Ends the join, because all members have joined or the join has failed. All members then ask for tensors
  /// again.
  void end_join() { joined_ = {}; }
  /// Notes that these members have left.
  void leave(const RankSet& places) { left_.add(places); }

  [[nodiscard]] bool any_joined() const { return !joined_.empty(); }
  [[nodiscard]] int last_joined() const { return last_joined_; }
  /// Whether an average is divided by the number of all members, including those that have joined. The last
  /// request to join decides this.
  [[nodiscard]] bool divide_by_initial_size() const { return divide_by_initial_size_; }
  [[nodiscard]] bool any_left() const { return !left_.empty(); }
  [[nodiscard]] bool any_left(const RankSet& places) const { return left_.intersects(places); }
  [[nodiscard]] bool all_left() const { return left_ == everybody_; }

  /// Whether a tensor waits for no further member. `missing`: the members that must ask for the tensor and
  /// have not. `joins`: the tensor is a join.
  [[nodiscard]] bool complete(const RankSet& missing, bool joins) const;
  /// The members of `missing` that have left, and so will never ask.
  [[nodiscard]] RankSet left_of(const RankSet& missing) const { return left_.common(missing); }

 private:
  RankSet everybody_;
  RankSet left_;
  RankSet joined_;
  int last_joined_ = 0;
  bool divide_by_initial_size_ = true;
};

}  // namespace hora
