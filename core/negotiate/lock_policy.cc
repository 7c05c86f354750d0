// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/lock_policy.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace hora {
namespace {

/// Whether all decisions of the order are known, and all pending tensors are asked for by numbers of the
/// order.
bool all_belong_to(const std::vector<DecisionId>& order, const PendingTensors& pending,
                   const NumberedRequests& numbered) {
  const std::unordered_set<DecisionId> ids(order.begin(), order.end());
  const auto belongs = [&](const auto& named) {
    const auto& askings = named.second.askings;
    return std::all_of(askings.begin(), askings.end(),
                       [&](const Asking& asking) { return ids.contains(asking.repeat); });
  };
  return std::all_of(pending.by_name().begin(), pending.by_name().end(), belongs) &&
         std::all_of(order.begin(), order.end(), [&](DecisionId id) { return numbered.knows(id); });
}

}  // namespace

bool LockPolicy::lock(Verdict& verdict, const PendingTensors& pending, const NumberedRequests& numbered,
                      const Absences& absences) {
  if (!allowed_) return false;
  for (const auto& item : verdict.items) {
    if (item.repeat == 0) {
      steady_state_.disturb();
    } else {
      steady_state_.repeat(item.repeat);
    }
  }
  const bool absent = absences.any_joined() || absences.any_left();
  if (!steady_state_.is_steady() || absent || verdict.trace != TraceCommand::none) return false;
  std::vector<DecisionId> order = steady_state_.order();
  if (!all_belong_to(order, pending, numbered)) return false;
  verdict.lock = std::move(order);
  verdict.made = steady_state_.made();
  locked_by_ = numbered.verdicts();
  steady_state_.begin_lock();
  return true;
}

}  // namespace hora
