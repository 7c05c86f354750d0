// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/compose/phases.h"
#include "core/compose/three_steps.h"

#include <span>

namespace hora {

/// The allreduce of a hierarchical collective. The segments are treated as one tensor. All ranks call it.
///
///   within the host   the host's ranks reduce-scatter in their arena: place i gets slice i of the host's sum
///   across hosts      the i-th ranks of all hosts allreduce slice i
///   within the host   the host's ranks allgather the slices
///
/// `phases`: the reductions within hosts and across hosts. `packing`: packs and unpacks the only segment,
/// chunk by chunk; null if no segment needs that. Throws what the collectives throw.
void allreduce_in_steps(ThreeSteps& steps, std::span<const Segment> segments, const Phases& phases,
                        Packing* packing);

}  // namespace hora
