// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/base/descriptor.h"

#include <hora/status.h>

#include <span>
#include <utility>

namespace hora {

/// The timeout for poll(), in milliseconds: -1 for ever, else at least 0.
[[nodiscard]] int milliseconds_until(TimePoint deadline);

/// Whether `events` (poll's) come true before the deadline.
bool await_events(int fd, short events, TimePoint deadline);

// Over a stream socket, blocking up to the deadline. They throw Error(timeout) at it, and Error(unavailable)
// when the other side closes or resets the connection.
void read_exactly(int fd, std::span<std::byte> bytes, TimePoint deadline);
void write_all(int fd, std::span<const std::byte> bytes, TimePoint deadline);

}  // namespace hora
