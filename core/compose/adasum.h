// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <cstddef>
#include <span>

namespace hora {

/// Combines each segment of all ranks by adaptive summation (ReduceOp::adasum). Every rank gets the same
/// bits.
///
/// Ranks are combined in pairs, pairs in pairs of pairs, and so on: a tree. For each pair a combination needs
/// three dot products of whole segments, but each rank holds a share of all segments of all ranks:
///
///   alltoall    each rank gets its share of the segments of every rank
///   each level  each rank computes its share's part of the dot products of all pairs; an allreduce of
///               float64 sums them; each rank combines its share of all pairs
///   allgather   each rank gets the shares of the result
///
/// So it moves as many bytes as an allreduce, and three numbers for each pair and segment at each level.
///
/// `dtype`, a float: of the elements of the segments. They travel as `wire`. They are combined in float64 if
/// both are float64, else in float32. `prescale` multiplies the inputs, `postscale` the results. Throws what
/// the collective throws.
void adasum(Collective& collective, int rank, int ranks, std::span<const Segment> segments, DType dtype,
            DType wire, double prescale, double postscale);

}  // namespace hora
