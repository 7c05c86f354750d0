// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"

#include <string>
#include <vector>

namespace hora {

/// Decides when a tensor that some ranks wait for is worth a warning: after `patience`, and again each time
/// that passes. Told what waits; says what to print. *Engine only*, on rank 0.
class Stalls {
 public:
  /// `patience` of zero: never warns.
  Stalls(std::chrono::milliseconds patience, const std::vector<Member>& members)
      : patience_(patience), members_(members) {}

  /// A text per tensor that has waited too long: its name, for how long, who has asked and who is missing.
  std::vector<std::string> check(const Negotiator& negotiator, TimePoint now);
  /// When to check next; TimePoint::max() while nothing waits.
  [[nodiscard]] TimePoint next(const Negotiator& negotiator) const;

 private:
  [[nodiscard]] std::string describe(const Coordinator::Waiting& waiting, TimePoint now) const;

  std::chrono::milliseconds patience_;
  const std::vector<Member>& members_;
  TimePoint checked_;
};

}  // namespace hora
