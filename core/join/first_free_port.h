// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>

namespace hora {

/// Returns a socket that listens on all addresses of this host, at the first free port of the list
/// "host:port,host:port". Rank 0 uses it if its launcher passes no socket, but a list of ports that all ranks
/// know. The hosts in the list are ignored, because the name of a host often has a loopback address on that
/// host. Throws Error(unavailable), which names the list, if no port is free. Throws Error(invalid_argument)
/// for a bad port.
[[nodiscard]] Descriptor listen_at_first_free(const std::string& points);

}  // namespace hora
