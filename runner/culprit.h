// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "runner/process.h"

#include <optional>

namespace hora {

/// Which rank is the reason that a job failed. When one fails the others do, too, because they miss it; hrun
/// may hear of ends that are almost at once in any order. A value.
class Culprit {
 public:
  /// A rank ended badly, without having been told to end; tell them in the order in which they are known to
  /// have ended. True if it is the first.
  bool accuse(int rank, const Ending& ending, TimePoint when);

  [[nodiscard]] bool known() const { return rank_.has_value(); }
  /// These hold once it is known.
  [[nodiscard]] int rank() const { return *rank_; }
  [[nodiscard]] const Ending& ending() const { return ending_; }

 private:
  std::optional<int> rank_;
  Ending ending_;
  TimePoint first_;
};

}  // namespace hora
