// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"
#include "core/backend/tcp/data/partial_sum.h"
#include "core/backend/tcp/data/scratch.h"

#include <span>

namespace hora::tcp {

/// Each rank talks to log2 p others, by pairs: in the round of distance d = p/2, p/4 ... 1 with the one whose
/// number differs by d.
///
/// A small tensor is exchanged as a whole in each round, and both add (recursive doubling). A larger tensor
/// is halved in each round (recursive halving). A rank sends the half of its sums that it gives up, and adds
/// the sums that it gets to the half that it keeps. It ends with the result of 1/p, and in the rounds back
/// each gets the result that the other has. That moves as few bytes per rank as any algorithm (sums of 16-bit
/// floats are float32: see PartialSum), in 2 log2 p hops.
///
/// If p is no power of two, the first p - 2^k pairs of neighbours begin as one. The odd one gives its input
/// to the even one, and gets the result in the end.
///
/// Each sum is taken over the same tree of ranks, lower rank first, whatever the length and wherever the
/// element lies. It does not depend on which elements travel together.
void allreduce_halving(Mesh& mesh, const SegmentView& view, const PartialSum& sum, Scratch& scratch);

/// The first half of it: rank r gets, at `output`, the result from element bounds[r] to bounds[r + 1]. The
/// input is one piece.
void reducescatter_halving(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bounds,
                           const Reduction& reduction, Scratch& scratch);

}  // namespace hora::tcp
