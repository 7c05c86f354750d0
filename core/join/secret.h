// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

namespace hora {

/// 32 random bytes, for a job. Throws Error(unavailable) if the system has no random numbers.
[[nodiscard]] Secret new_secret();

}  // namespace hora
