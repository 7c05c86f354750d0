// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/pending_tensors.h"

#include <iterator>

namespace hora {

PendingTensors::Found PendingTensors::find_or_add(const std::string& name, TimePoint since) {
  const auto [entry, fresh] = by_name_.try_emplace(name);
  PendingTensor& pending = entry->second;
  if (fresh) {
    pending.age = ages_.emplace(age_at(since), since, name);
    pending.since = since;
    return {entry, {}};
  }
  const Clock::duration behind = since - pending.since;
  if (behind < Clock::duration::zero()) {
    ages_.splice(age_at(since), ages_, pending.age);
    pending.age->first = since;
    pending.since = since;
  }
  return {entry, behind};
}

/// The position in the order of ages for a tensor that was first asked for at `since`.
NamesByAge::iterator PendingTensors::age_at(TimePoint since) {
  auto at = ages_.end();
  while (at != ages_.begin() && std::prev(at)->first > since) --at;
  return at;
}

void PendingTensors::erase(Entry entry) {
  ages_.erase(entry->second.age);
  by_name_.erase(entry);
}

void PendingTensors::clear() {
  by_name_.clear();
  ages_.clear();
}

}  // namespace hora
