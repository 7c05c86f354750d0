// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/mesh.h"
#include "core/comm/collective.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>

namespace hora {

/// A collective over sockets, for ranks that share no memory. Connects every two ranks; both sides prove that
/// they know the secret. Throws Error(unavailable) that names the ranks that do not reach each other,
/// Error(aborted), (timeout).
std::unique_ptr<Collective> connect_tcp(Control& control, const std::vector<Member>& members,
                                        const Config& config, TimePoint deadline);

/// The collective over a mesh that is connected.
std::unique_ptr<Collective> make_tcp_collective(std::unique_ptr<Mesh> mesh);

}  // namespace hora
