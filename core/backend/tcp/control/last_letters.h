// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <optional>
#include <utility>

namespace hora::tcp {

/// The order of rank 0's last words. Rank 0's goodbye comes over the star, and may be faster than its last
/// announcement, which comes down the tree. So the goodbye counts when that has come, or nothing more can.
class LastLetters {
 public:
  /// Rank 0 has said goodbye by this letter. Returns it if it counts now.
  std::optional<Letter> hear_goodbye(Letter goodbye) {
    if (ended_) return goodbye;
    goodbye_ = std::move(goodbye);
    return std::nullopt;
  }
  /// No announcement will come any more. Returns a goodbye that counts now.
  std::optional<Letter> end_announcements() {
    ended_ = true;
    return std::exchange(goodbye_, std::nullopt);
  }
  /// The reason that a goodbye tells which has come.
  void explain(const Status& why) {
    if (goodbye_) goodbye_->loss = why;
  }

 private:
  std::optional<Letter> goodbye_;
  bool ended_ = false;
};

}  // namespace hora::tcp
