// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <optional>
#include <utility>

namespace hora::tcp {

/// The order of rank 0's last words. Rank 0's goodbye comes over the star, and may be faster than its last
/// announcement, which comes down the tree. So the goodbye counts when that has come, or nothing more can.
class Farewell {
 public:
  /// Rank 0 has said goodbye. Returns its loss if the goodbye counts now.
  std::optional<PeerLost> hear_goodbye(PeerLost goodbye) {
    if (ended_) return goodbye;
    goodbye_ = std::move(goodbye);
    return std::nullopt;
  }
  /// No announcement will come any more. Returns a goodbye that counts now.
  std::optional<PeerLost> end_announcements() {
    ended_ = true;
    return std::exchange(goodbye_, std::nullopt);
  }
  /// The reason that a goodbye tells which has come.
  void explain(const Status& why) {
    if (goodbye_) goodbye_->why = why;
  }

 private:
  std::optional<PeerLost> goodbye_;
  bool ended_ = false;
};

}  // namespace hora::tcp
