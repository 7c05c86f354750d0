// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace hora {

std::string no_such_set(int number) {
  return fmt::format("process set {} does not exist, or has not been registered", number);
}

std::string there_is_one(const ProcessSet& set, int number) {
  const std::string name = set.name.empty() ? "" : fmt::format(" with the name '{}'", set.name);
  return fmt::format("there is one of these ranks{} already, number {}", name, number);
}

ProcessSets::ProcessSets(int size) : size_(size) {
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  sets_.emplace(0, ProcessSet{std::move(everybody), {}});
}

std::map<int, ProcessSet> ProcessSets::all() const {
  const std::lock_guard lock(mutex_);
  return sets_;
}

std::optional<ProcessSet> ProcessSets::find(int number) const {
  const std::lock_guard lock(mutex_);
  const auto set = sets_.find(number);
  return set == sets_.end() ? std::nullopt : std::optional(set->second);
}

std::optional<std::vector<int>> ProcessSets::ranks_of(int number) const {
  auto set = find(number);
  return set ? std::optional(std::move(set->ranks)) : std::nullopt;
}

std::optional<int> ProcessSets::number_of(const ProcessSet& set) const {
  const std::lock_guard lock(mutex_);
  const auto known =
      std::find_if(sets_.begin(), sets_.end(), [&](const auto& each) { return each.second == set; });
  return known == sets_.end() ? std::nullopt : std::optional(known->first);
}

int ProcessSets::next() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

int ProcessSets::add(ProcessSet set) {
  const std::lock_guard lock(mutex_);
  sets_.emplace(next_, std::move(set));
  return next_++;
}

void ProcessSets::remove(int number) {
  const std::lock_guard lock(mutex_);
  sets_.erase(number);
}

}  // namespace hora
