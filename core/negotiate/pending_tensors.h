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

/// The names of tensors, ordered by the times when a member first asked for them.
using NamesByAge = std::list<std::pair<TimePoint, std::string>>;

/// The requests that members of a group have made under one name, while the tensor is not decided. A value.
struct PendingTensor {
  std::vector<Asking> askings;
  RankSet asked;             ///< the places of all members that have asked
  RankSet needed;            ///< the places of all members that must ask
  bool joins = false;        ///< the tensor is a join
  bool ready = false;        ///< the next verdict decides the tensor
  TimePoint since;           ///< when the first member asked
  NamesByAge::iterator age;  ///< its position in the order of ages
};

/// The tensors of a group that some members have asked for and that are not decided: by name, and in the
/// order of their ages. Each Coordinator has one. *Engine only.*
class PendingTensors {
 public:
  using ByName = std::unordered_map<std::string, PendingTensor>;
  using Entry = ByName::iterator;

  struct Found {
    Entry entry;
    /// How much later these members asked than the first member. 0 for a new tensor. Negative if these
    /// members asked first, although others were added before; `PendingTensor::since` has then been
    /// corrected.
    Clock::duration behind{};
  };
  /// Finds the tensor of this name, or adds it. `since`: when the members that the caller adds next have
  /// asked for it.
  Found find_or_add(const std::string& name, TimePoint since);
  /// The tensor of this name; `end()` if there is none.
  [[nodiscard]] Entry find(const std::string& name) { return by_name_.find(name); }
  [[nodiscard]] Entry end() { return by_name_.end(); }
  /// The tensor of this name, which must be pending.
  [[nodiscard]] const PendingTensor& at(const std::string& name) const { return by_name_.at(name); }
  [[nodiscard]] const ByName& by_name() const { return by_name_; }
  /// The names of all tensors, the oldest tensor first.
  [[nodiscard]] const NamesByAge& by_age() const { return ages_; }
  /// The time when a member first asked for the oldest tensor; TimePoint::max() if nothing is pending.
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
