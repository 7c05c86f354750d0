// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/join/handshake.h"

#include <hora/config.h>

#include <functional>
#include <vector>

namespace hora::tcp {

/// A connection to a parent or a child in the tree (TreePosition).
struct TreeLink {
  Member member;
  Connection connection;
};

/// Connects this rank to its parent and its children in the tree, `Control::position`, and gives each tree
/// link to `found` as soon as it is there. Rank 0 and its children have their connections of the star for
/// that, and get none. All ranks call it. Throws Error(unavailable) that says how each address of the parent
/// failed, when half of the time until the deadline is over; what `tell_where` throws; and Error with the
/// status of a loss of which control tells meanwhile.
void connect_tree_links(const World& world, const Config& config, TimePoint deadline,
                        const std::function<void(TreeLink)>& found);

}  // namespace hora::tcp
