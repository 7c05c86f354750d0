// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"

#include <span>

namespace hora::tcp {

/// Rank r brings bytes[r]; every output gets them all in rank order. Each rank sends its own to all others:
/// one hop, p-1 connections.
void allgather_at_once(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes);

/// The same in log2 p hops with as many peers (Bruck's algorithm): in the round of distance d = 1, 2, 4 ... a
/// rank sends all blocks it has to the rank d before it, and gets those that the rank d after it has, until
/// it has all. As many bytes as at once. Without bytes it is a barrier (dissemination): who leaves has heard,
/// directly or not, from all.
void allgather_in_rounds(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes);

/// bytes[from * p + to]: how many bytes rank `from` has for rank `to`. Ranks that have nothing for each other
/// do not talk; the others do so all at once, since nobody else has what they need.
void alltoall_at_once(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes);

}  // namespace hora::tcp
