// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/communicator.h"

#include <chrono>
#include <memory>
#include <vector>

namespace hora::nccl {

/// Aborts communicators as one group: NCCL ends what they are doing on the GPU, whatever the other ranks do.
/// One after the other would not do, because the first may have its work behind that of the second. False:
/// NCCL has not returned in time, so the thread in which it is goes on with them; they, and all that they
/// know of, belong to that thread, and nobody may touch them any more. Else they have been forgotten.
[[nodiscard]] bool abort_together(const NcclContext& context,
                                  const std::vector<std::shared_ptr<Communicator>>& communicators) noexcept;

}  // namespace hora::nccl
