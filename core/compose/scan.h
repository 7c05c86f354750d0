// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <cstddef>

namespace hora {

/// Rank r's output is the reduction of the inputs of the ranks 0 to r: an inclusive scan (MPI_Scan).
///
/// By shares, as an allreduce: every rank gets its share of all inputs by an alltoall, and computes the
/// prefixes of all ranks for it. It sends each rank its own by another alltoall. So as many bytes move as in
/// an allreduce, and each element of each prefix is reduced in rank order with one rounding.
///
/// `count` elements at `input` and at `output`, which may be the same; the same on all ranks.
/// `reduction.divisor` is 1. Throws what the collective throws.
void scan(Collective& collective, int rank, int ranks, const void* input, void* output, std::size_t count,
          const Reduction& reduction);

}  // namespace hora
