// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <span>
#include <string>
#include <vector>

namespace hora::tcp {

/// One rank that cannot reach another, and how each address failed ("10.1.0.4:4711 refused"). A value.
struct Gap {
  Member from;
  Member to;
  std::vector<std::string> failures;
};

/// The status that ends a job whose ranks cannot reach each other: a row for each pair, up to a limit, and
/// the remedy.
[[nodiscard]] Status describe_gaps(std::span<const Gap> gaps);

/// Whether a status is one that `describe_gaps` has made.
[[nodiscard]] bool tells_of_gaps(const Status& status);
/// The rows of both under one head. Both tell of gaps.
[[nodiscard]] Status merge_gaps(const Status& first, const Status& second);

}  // namespace hora::tcp
