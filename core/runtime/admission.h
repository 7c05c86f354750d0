// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/process_sets.h"
#include "core/runtime/tensor_table.h"

namespace hora {

/// What an entry of rank `rank` asks of the other ranks, and in which group. Throws Error(invalid_argument),
/// which names the tensor, for everything that this rank alone can see is wrong: in the caller's thread,
/// before anything is sent.
[[nodiscard]] Asked admit(const Entry& entry, int rank, const ProcessSets& sets);

}  // namespace hora
