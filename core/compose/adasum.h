// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <cstddef>
#include <span>

namespace hora {

/// Combines each segment of all ranks by adaptive summation (ReduceOp::adasum); every rank gets the same
/// bits.
///
/// Every rank gets its share of all ranks' segments, seen as one tensor, by an alltoall. It then climbs the
/// tree of pairs for its share, for all pairs at once: at each level an allreduce of float64 sums gives every
/// pair's dot products over all shares, a triple for each segment; the rest is local. An allgather brings the
/// results together. So it moves as many bytes as an allreduce, and a little more for each level.
///
/// `dtype`, a float, is that of the elements, which travel as `wire`; between the ranks they are float32, or
/// float64 where both are that, and rounded once at the end. `prescale` multiplies the inputs, `postscale`
/// the results. Throws what the collective throws.
void adasum(Collective& collective, int rank, int ranks, std::span<const Segment> segments, DType dtype,
            DType wire, double prescale, double postscale);

}  // namespace hora
