// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_set_changes.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

void ProcessSetChanges::add(const Decision& decision, TimePoint decided) {
  const auto& ranks = decision.request.ranks;
  Result result{{}, {}};
  if (const auto known = sets_.number_of(ranks)) {  // two threads of a rank have asked for it
    result.status = {Code::mismatch, fmt::format("'{}': there is one of these ranks already, number {}",
                                                 decision.request.name, *known)};
    return groups_.world().conclude(decision, std::move(result), decided);
  }
  const int number = result.process_set = sets_.next();
  groups_.add(number, ranks);
  table_.add_group(number);  // before any thread can know the number
  sets_.add(ranks);
  negotiator_.add_group(number, ranks);
  groups_.world().conclude(decision, std::move(result), decided);
}

void ProcessSetChanges::remove(const Decision& decision, TimePoint decided) {
  const auto number = sets_.number_of(decision.request.ranks);
  if (!number) {  // two threads of a rank have asked for it
    const Status gone{Code::mismatch,
                      fmt::format("'{}': it has been removed already", decision.request.name)};
    return groups_.world().conclude(decision, {gone, {}}, decided);
  }
  groups_.world().lane().collective->barrier();  // all members have ended their operations in the set
  groups_.remove(*number);
  sets_.remove(*number);
  negotiator_.remove_group(*number);
  table_.give_back(table_.remove_group(*number), process_set_was_removed(*number));
  groups_.world().conclude(decision, {{}, {}}, decided);
}

}  // namespace hora
