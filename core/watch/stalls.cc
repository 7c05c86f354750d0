// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hora {

TimePoint Stalls::next(const Negotiator& negotiator) const {
  const TimePoint oldest = negotiator.oldest();
  if (patience_.count() == 0 || oldest == TimePoint::max()) return TimePoint::max();
  return std::max(oldest, checked_) + patience_;
}

std::vector<std::string> Stalls::check(const Negotiator& negotiator, TimePoint now) {
  std::vector<std::string> warnings;
  if (now < next(negotiator)) return warnings;
  checked_ = now;
  for (const auto& waiting : negotiator.waiting(now - patience_)) warnings.push_back(describe(waiting, now));
  return warnings;
}

std::string Stalls::describe(const Coordinator::Waiting& waiting, TimePoint now) const {
  std::vector<std::string> missing;
  for (const int rank : waiting.missing) {
    missing.push_back(hora::describe(members_[static_cast<std::size_t>(rank)]));
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - waiting.since).count();
  const std::string set =
      waiting.ranks.empty() ? "" : fmt::format(" in the process set of {}", waiting.ranks);
  return fmt::format("'{}'{} has been waiting for {} s: {} asked for it, missing: {}", waiting.name, set,
                     seconds, describe_ranks(waiting.asked), fmt::join(missing, ", "));
}

}  // namespace hora
