// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"

namespace hora::tcp {

/// The bytes of `root` go to all, down a tree: each rank passes on a segment as soon as it has it. The tree
/// depends on what costs most:
/// - few ranks and few bytes: the root sends to all, one hop;
/// - many ranks and few bytes: a binomial tree, log2 p hops, and no rank sends more than log2 p times;
/// - many bytes: a chain. Every rank sends everything once, so it takes as long as the bytes take over one
///   connection, and a segment for each hop, where a root that sends to all takes p-1 times as long.
/// A rank waits only for messages from the root's side, so no ranks wait in a ring.
void broadcast_tree(Mesh& mesh, void* data, std::size_t bytes, int root);

}  // namespace hora::tcp
