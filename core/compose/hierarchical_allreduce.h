// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/compose/phases.h"
#include "core/compose/three_steps.h"

#include <span>

namespace hora {

/// The allreduce of a hierarchical collective, of segments seen as one tensor. All ranks call it.
///
///   within the host   the host's ranks reduce-scatter in their arena: place i has slice i of the host's sum
///   across hosts      the i-th ranks of all hosts allreduce slice i
///   within the host   the host's ranks allgather the slices
///
/// `packing`: of the one segment, if that is packed; else null. Throws what the collectives throw.
void allreduce_in_steps(ThreeSteps& steps, std::span<const Segment> segments, const Phases& phases,
                        Packing* packing);

}  // namespace hora
