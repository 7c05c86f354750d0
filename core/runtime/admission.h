// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

namespace hora {

/// What an entry asks of the other ranks. Throws Error(invalid_argument), which names the tensor, for
/// everything that this rank alone can see is wrong: in the caller's thread, before anything is sent. A pure
/// function.
[[nodiscard]] Request admit(const Entry& entry, int size);

}  // namespace hora
