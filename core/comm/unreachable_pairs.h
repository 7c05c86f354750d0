// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/status.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// One rank that cannot reach another, and how each address failed ("10.1.0.4:4711 refused"). A value.
struct UnreachablePair {
  Member from;
  Member to;
  std::vector<std::string> failures;
};

/// The error of a rank that could not connect to others.
class UnreachableError : public Error {
 public:
  UnreachableError(Status status, std::vector<int> ranks)
      : Error(std::move(status)), ranks_(std::move(ranks)) {}

  /// The others.
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};

/// The status (unavailable) for ranks that cannot reach each other: a row for each pair, 24 at most, and the
/// remedy.
[[nodiscard]] Status describe_unreachable(std::span<const UnreachablePair> unreachable_pairs);

/// Whether `describe_unreachable` has made this status, on this rank or another one.
[[nodiscard]] bool names_unreachable(const Status& status);
/// One status with the rows of both, each once, 24 at most. `names_unreachable` must be true of both.
[[nodiscard]] Status merge_unreachable(const Status& first, const Status& second);

}  // namespace hora
