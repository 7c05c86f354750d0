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

/// The status that ends a job whose ranks cannot reach each other: a row for each pair, up to a limit, and
/// the remedy.
[[nodiscard]] Status describe_unreachable(std::span<const UnreachablePair> unreachable_pairs);

/// Whether a status is one that `describe_unreachable` has made.
[[nodiscard]] bool names_unreachable(const Status& status);
/// The rows of both under one head. Both tell of unreachable pairs.
[[nodiscard]] Status merge_unreachable(const Status& first, const Status& second);

}  // namespace hora::tcp
