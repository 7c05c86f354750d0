// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/groups.h"
#include "core/runtime/process_sets.h"
#include "core/runtime/tensor_table.h"

namespace hora {

/// Carries out the decisions that add or remove a process set. Every rank does so at the same point in the
/// order of decisions. `decided` is the time when the decision was heard. Refers to its
/// constructor's arguments, which must outlive it. *Engine only.*
class ProcessSetChanges {
 public:
  ProcessSetChanges(ProcessSets& sets, Groups& groups, TensorTable& table, Negotiator& negotiator)
      : sets_(sets), groups_(groups), table_(table), negotiator_(negotiator) {}

  /// Adds the process set of the decision's ranks, and completes the request with the number of the set. The
  /// request fails with Code::mismatch if these ranks have a set already.
  void add(const Decision& decision, TimePoint decided);
  /// Ends the process set of the decision's ranks, which has no name. The request fails with Code::mismatch
  /// if the set is gone already.
  void remove(const Decision& decision, TimePoint decided);
  /// Ends the process set of this number. First blocks in a barrier of the world, until all members have
  /// ended their operations in the set. Tensors that still wait in the set end with an error. `users_wait`:
  /// as Groups::remove has it.
  void end(int number, bool users_wait);

 private:
  ProcessSets& sets_;
  Groups& groups_;
  TensorTable& table_;
  Negotiator& negotiator_;
};

}  // namespace hora
