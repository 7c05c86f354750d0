// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_set_changes.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

void ProcessSetChanges::add(const Decision& decision, TimePoint decided) {
  ProcessSet set{decision.request.ranks, decision.request.set_name};
  Result result{{}, {}};
  // Two threads of a rank have asked for it. One that has a name may still exist where it was removed before.
  if (const auto known = set.name.empty() ? sets_.number_of(set) : std::nullopt) {
    result.status = {Code::mismatch,
                     fmt::format("'{}': {}", decision.request.name, there_is_one(set, *known))};
    return groups_.world().conclude(decision, std::move(result), decided);
  }
  const int number = result.process_set = sets_.next();
  groups_.add(number, set.ranks);
  table_.add_group(number);  // before any thread can know the number
  negotiator_.add_group(number, set.ranks);
  sets_.add(std::move(set));
  groups_.world().conclude(decision, std::move(result), decided);
}

void ProcessSetChanges::remove(const Decision& decision, TimePoint decided) {
  const auto number = sets_.number_of({decision.request.ranks, {}});
  if (!number) {  // two threads of a rank have asked for it
    const Status gone{Code::mismatch,
                      fmt::format("'{}': it has been removed already", decision.request.name)};
    return groups_.world().conclude(decision, {gone, {}}, decided);
  }
  end(*number, true);
  groups_.world().conclude(decision, {{}, {}}, decided);
}

void ProcessSetChanges::end(int number, bool users_wait) {
  groups_.world().lane().collective->barrier();  // all members have ended their operations in the set
  groups_.remove(number, users_wait);
  sets_.remove(number);
  negotiator_.remove_group(number);
  table_.give_back(table_.remove_group(number), process_set_was_removed(number));
}

}  // namespace hora
