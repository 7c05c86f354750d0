// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/process_sets.h"
#include "core/runtime/tensor_table.h"

namespace hora {

/// The request of an entry of rank `rank` to the other ranks, and its group. Throws Error(invalid_argument),
/// which names the tensor, for every mistake that this rank alone can see: in the caller's thread, before
/// anything is sent.
[[nodiscard]] Asked admit(const Entry& entry, int rank, const ProcessSets& sets);

}  // namespace hora
