// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"
#include "core/backend/tcp/data/partial_sum.h"
#include "core/backend/tcp/data/scratch.h"

namespace hora::tcp {

/// Each rank talks to the two beside it only, however many there are. Elements are cut into p chunks. The sum
/// of chunk c begins at rank c and takes in one rank after the other round the ring. Then the result goes
/// round once more. It moves as few bytes per rank as any algorithm (sums of 16-bit floats are float32: see
/// PartialSum), in 2(p-1) hops. It is for tensors so large that hops do not count.
///
/// The order of a sum depends on the chunk, that is on where an element lies in the tensor. It does not
/// depend on when messages arrive.
///
/// Chunks are cut into segments, kSegments of each at a time. Message (s, j) of a rank is segment j of the
/// chunk that it passes on in hop s; messages go in that order. (0, j) is the rank's own input; (s, j) is
/// queued when (s-1, j) has come from the rank before, which is an earlier message. In hop s a sum that comes
/// goes to receive buffer (s mod 2, j), and a result that comes goes to the output. The buffer is free when
/// the message (s-1, j), by which its last sum was passed on, has gone, which is an earlier message, too. So
/// everything waits for earlier messages alone.
void allreduce_ring(Mesh& mesh, const SegmentView& view, const PartialSum& sum, Scratch& scratch);

}  // namespace hora::tcp
