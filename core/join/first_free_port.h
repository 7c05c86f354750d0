// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>

namespace hora {

/// A socket that listens on every address of this host, at the first free port of a list
/// "host:port,host:port". Rank 0 waits there if its launcher has only agreed on ports. The address that the
/// host's name has on this host (often a loopback address) does not matter. Throws Error(unavailable) that
/// names the ports.
[[nodiscard]] Descriptor listen_at_first_free(const std::string& points);

}  // namespace hora
