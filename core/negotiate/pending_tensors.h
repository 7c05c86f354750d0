// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/asking.h"

#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hora {

/// The names of tensors, ordered by the times when they were first asked for.
using NamesByAge = std::list<std::pair<TimePoint, std::string>>;

/// The requests that members have made under one name. A value.
struct PendingTensor {
  std::vector<Asking> askings;
  RankSet asked;       ///< the places of all that have asked
  bool joins = false;  ///< it is a join
  bool ready = false;  ///< it will be decided with the next verdict
  TimePoint since;     ///< the first member asked
  NamesByAge::iterator age;
};

/// The tensors of a group that some members have asked for, by name, and in the order of their ages.
/// *Engine only.*
class PendingTensors {
 public:
  using ByName = std::unordered_map<std::string, PendingTensor>;
  using Entry = ByName::iterator;

  struct Found {
    Entry entry;
    /// Positive: the tensor was first asked for so long before. Negative: members that were added before had
    /// asked so much later, and `PendingTensor::since` has been corrected. 0 for a new tensor.
    Clock::duration behind{};
  };
  /// The tensor of this name, for which members have asked at `since`. The caller adds these members to it.
  Found find_or_add(const std::string& name, TimePoint since);
  /// The tensor of this name; `end()` if there is none.
  [[nodiscard]] Entry find(const std::string& name) { return by_name_.find(name); }
  [[nodiscard]] Entry end() { return by_name_.end(); }
  /// The tensor of this name, which must be pending.
  [[nodiscard]] const PendingTensor& at(const std::string& name) const { return by_name_.at(name); }
  [[nodiscard]] const ByName& by_name() const { return by_name_; }
  /// The oldest first.
  [[nodiscard]] const NamesByAge& by_age() const { return ages_; }
  /// The time when the oldest was first asked for; TimePoint::max() if nothing is pending.
  [[nodiscard]] TimePoint oldest() const { return ages_.empty() ? TimePoint::max() : ages_.front().first; }
  [[nodiscard]] bool empty() const { return by_name_.empty(); }
  void erase(Entry entry);
  void clear();

 private:
  [[nodiscard]] NamesByAge::iterator age_at(TimePoint since);

  ByName by_name_;
  NamesByAge ages_;
};

}  // namespace hora
