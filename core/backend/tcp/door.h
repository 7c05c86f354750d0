// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/socket_io.h"

#include <string>

namespace hora {

/// A socket that listens on the network (HORA_NETWORK, see listen_on_network) of this host, at the first free
/// port of a list "host:port,host:port": where rank 0 waits if its launcher has only agreed on ports. What
/// its own name means to this host (often a loopback address) does not matter. Throws Error(unavailable) that
/// names the ports, and what own_addresses throws.
[[nodiscard]] Descriptor listen_at_first_free(const std::string& points, const std::string& network = "");

}  // namespace hora
