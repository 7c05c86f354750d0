// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_sets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hora {

ProcessSets::ProcessSets(int size) {
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  sets_.emplace(0, std::move(everybody));
}

std::map<int, std::vector<int>> ProcessSets::all() const {
  const std::lock_guard lock(mutex_);
  return sets_;
}

std::optional<std::vector<int>> ProcessSets::ranks_of(int number) const {
  const std::lock_guard lock(mutex_);
  const auto set = sets_.find(number);
  return set == sets_.end() ? std::nullopt : std::optional(set->second);
}

std::optional<int> ProcessSets::number_of(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  const auto set = std::find_if(sets_.begin(), sets_.end(), [&](const auto& s) { return s.second == ranks; });
  return set == sets_.end() ? std::nullopt : std::optional(set->first);
}

int ProcessSets::next() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

int ProcessSets::add(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  sets_.emplace(next_, std::move(ranks));
  return next_++;
}

void ProcessSets::remove(int number) {
  const std::lock_guard lock(mutex_);
  sets_.erase(number);
}

}  // namespace hora
