// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

namespace hora::tcp {

/// Meets the other ranks over TCP: a world whose `lane` is still empty. Throws what `rendezvous` throws.
[[nodiscard]] World connect_tcp_control(const Membership& membership, const Config& config,
                                        TimePoint deadline);

}  // namespace hora::tcp
