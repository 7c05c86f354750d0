// SPDX-License-Identifier: Apache-2.0
#include "test/conformance/collective_suite.h"
#include "test/support/hierarchical_ranks.h"

namespace hora {
namespace {

/// Two ranks on each host, the last one perhaps alone.
int in_pairs(int rank) { return rank / 2; }
/// Two hosts that get ranks in turns, as some schedulers do it.
int in_turns(int rank) { return rank % 2; }
/// Three on the first host, four on the second, the rest on the third.
int unequal(int rank) { return rank < 3 ? 0 : rank < 7 ? 1 : 2; }

const RegisterCollective kPairs{{"hierarchical_pairs",
                                 [](int ranks) { return connect_hierarchical_ranks(ranks, in_pairs, true); },
                                 {1, 2, 3, 4, 5},
                                 in_pairs}};
const RegisterCollective kTurns{{"hierarchical_turns",
                                 [](int ranks) { return connect_hierarchical_ranks(ranks, in_turns, false); },
                                 {2, 3, 5, 8},
                                 in_turns}};
const RegisterCollective kUnequal{{"hierarchical_unequal",
                                   [](int ranks) { return connect_hierarchical_ranks(ranks, unequal, true); },
                                   {4, 6, 8},
                                   unequal}};

}  // namespace
}  // namespace hora
