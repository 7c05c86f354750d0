// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <optional>
#include <utility>

namespace hora::tcp {

/// Holds back the news that rank 0 has left. Rank 0's leave comes over the star, and may be faster than its
/// last announcement, which comes down the tree. So the leave counts when that announcement has come, or when
/// no announcement can come any more.
class DeferredLeave {
 public:
  /// Rank 0 has left. Returns its loss if the leave counts at once.
  std::optional<PeerLost> hear_leave(PeerLost leave) {
    if (ended_) return leave;
    leave_ = std::move(leave);
    return std::nullopt;
  }
  /// No announcement will come any more. Returns the leave that was held back, if there is one.
  std::optional<PeerLost> end_announcements() {
    ended_ = true;
    return std::exchange(leave_, std::nullopt);
  }
  /// Sets the reason of a leave that is held back.
  void explain(const Status& why) {
    if (leave_) leave_->why = why;
  }

 private:
  std::optional<PeerLost> leave_;
  bool ended_ = false;
};

}  // namespace hora::tcp
