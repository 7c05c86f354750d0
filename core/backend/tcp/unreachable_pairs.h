// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <span>
#include <string>
#include <vector>

namespace hora::tcp {

/// One rank that cannot reach another, and how each address failed ("10.1.0.4:4711 refused"). A value.
struct UnreachablePair {
  Member from;
  Member to;
  std::vector<std::string> failures;
};

/// The status (unavailable) for ranks that cannot reach each other: a row for each pair, 24 at most, and the
/// remedy.
[[nodiscard]] Status describe_unreachable(std::span<const UnreachablePair> unreachable_pairs);

/// Whether `describe_unreachable` has made this status, on this rank or another one.
[[nodiscard]] bool names_unreachable(const Status& status);
/// One status with the rows of both, each once, 24 at most. `names_unreachable` must be true of both.
[[nodiscard]] Status merge_unreachable(const Status& first, const Status& second);

}  // namespace hora::tcp
