// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/stream.h"

#include <functional>

namespace hora {

/// Blocks until the point is reached; null is. Sleeps an eighth of the time that it has waited for between
/// two looks, from 10 µs to 1 ms. `check` is called before each, and may throw.
void await(const Event* event, const std::function<void()>& check);

}  // namespace hora
