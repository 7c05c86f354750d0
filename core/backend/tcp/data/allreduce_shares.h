// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"
#include "core/backend/tcp/data/scratch.h"
#include "core/backend/tcp/data/segment_view.h"
#include "core/device/kernels.h"

#include <span>

namespace hora::tcp {

/// Each rank reduces a share of the elements, for all. It gets that share of all inputs, reduces it in rank
/// order with one rounding, and sends the result to all. Every rank talks to every other one.
///
/// It moves as few bytes per rank as any algorithm, 2n(p-1)/p in each direction, in two hops, and 16-bit
/// floats travel as such. The result has the same bits wherever an element lies in the tensor, and those of
/// every other backend that sums in rank order. Its cost is p-1 connections and messages per rank.
///
/// Shares are cut into segments, of which `a` are on their way at a time: two, or one for each socket to a
/// peer. In step j a rank sends to each peer the input of the j-th segment of the peer's share. Then it sends
/// the result of segment j-a of its own share. It begins step j as soon as it has reduced its own segment
/// j-a, straight from where it was received. Segment j comes into the receive buffer of segment j-a. Messages
/// queued in step j are the same at both ends, in the same order, and wait only for messages of steps before
/// j. So the first message of all that is not through is always queued at both ends.
///
/// In place is right: an input of a peer's share has left before its result can come, as the result needs it.
void allreduce_shares(Mesh& mesh, const SegmentView& view, const Reduction& reduction, Scratch& scratch);

/// A small tensor goes in one hop: every rank sends all to all, and every rank reduces all.
void allreduce_at_once(Mesh& mesh, const SegmentView& view, const Reduction& reduction, Scratch& scratch);

/// As allreduce_shares, but shares are what `bounds` says (rank r's begins at element bounds[r]), each goes
/// to the rank whose it is alone, and `output` gets it.
void reducescatter_shares(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bounds,
                          const Reduction& reduction, Scratch& scratch);

}  // namespace hora::tcp
