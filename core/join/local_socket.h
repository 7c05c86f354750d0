// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>

namespace hora {

// Sockets between processes of one host, in Linux's abstract namespace: a name that is no file, is gone with
// its socket, and is seen only within the same network namespace. All throw Error(unavailable), and
// Error(timeout) at the deadline.
[[nodiscard]] Descriptor listen_local(const std::string& name);
[[nodiscard]] Descriptor connect_local(const std::string& name);
[[nodiscard]] Descriptor accept_local(const Descriptor& listener, TimePoint deadline);

/// The user who runs the process at the other end.
[[nodiscard]] unsigned user_of(const Descriptor& socket);

/// Passes an open file to the process at the other end, which gets a descriptor of its own (closed on exec).
void send_descriptor(const Descriptor& socket, const Descriptor& file, TimePoint deadline);
[[nodiscard]] Descriptor receive_descriptor(const Descriptor& socket, TimePoint deadline);

}  // namespace hora
