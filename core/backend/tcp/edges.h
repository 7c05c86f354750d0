// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/handshake.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <vector>

namespace hora {

/// A connection to a parent or a child in the tree (TreeSeat).
struct Edge {
  Member member;
  Connection connection;
};

/// Connects this rank to its parent and its children in the tree, control's `seat`. Rank 0 and its children
/// have their connections of the star for that, and get none. All ranks call it. Throws Error(unavailable)
/// that says how each address of the parent failed, and what `tell_where` throws; Error with the status of a
/// loss of which control tells meanwhile.
[[nodiscard]] std::vector<Edge> connect_edges(Control& control, const std::vector<Member>& members,
                                              const Config& config, TimePoint deadline);

}  // namespace hora
