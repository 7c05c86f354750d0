// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/gpu/own_gpu.h"
#include "core/runtime/captured_operations.h"
#include "core/runtime/delays.h"
#include "core/runtime/lent_memory.h"
#include "core/runtime/steps.h"

#include <memory>

namespace hora {

/// The things that a rank keeps from one generation of its job to the next. Thread-safe.
struct Lasting {
  Lasting(int local_rank, const NcclModule* module) : gpu(local_rank, module) {}

  std::shared_ptr<LentMemory> lent = std::make_shared<LentMemory>();
  std::shared_ptr<Delays> delays = std::make_shared<Delays>();  // a scope may outlive the job
  Steps steps;
  OwnGpu gpu;
  CapturedOperations captured;

  /// Waits for the runs of graphs that have been launched. On a user's thread. Throws Error(internal) if the
  /// device has failed.
  void finish_graphs() const {
    if (captured.any()) gpu.opened()->finish();
  }
};

}  // namespace hora
