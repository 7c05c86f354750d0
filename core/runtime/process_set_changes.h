// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/groups.h"
#include "core/runtime/process_sets.h"
#include "core/runtime/tensor_table.h"

namespace hora {

/// Carries out decisions to add or to remove a process set, on all ranks alike. Refers to its constructor's
/// arguments, which must outlive it. *Engine only.*
class ProcessSetChanges {
 public:
  ProcessSetChanges(ProcessSets& sets, Groups& groups, TensorTable& table, Negotiator& negotiator)
      : sets_(sets), groups_(groups), table_(table), negotiator_(negotiator) {}

  void add(const Decision& decision, TimePoint decided);
  /// Waits until all members have ended their operations in the set. Tensors of it that wait get an error.
  void remove(const Decision& decision, TimePoint decided);

 private:
  ProcessSets& sets_;
  Groups& groups_;
  TensorTable& table_;
  Negotiator& negotiator_;
};

}  // namespace hora
