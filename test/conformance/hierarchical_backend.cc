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

const RegisterCollective kPairs{
    {.name = "hierarchical_pairs",
     .connect = [](int ranks) { return connect_hierarchical_ranks(ranks, in_pairs, true); },
     .ranks = exactly({1, 3, 4}),
     .host = in_pairs}};
const RegisterCollective kTurns{
    {.name = "hierarchical_turns",
     .connect = [](int ranks) { return connect_hierarchical_ranks(ranks, in_turns, false); },
     .ranks = exactly({2, 5}),
     .host = in_turns}};
const RegisterCollective kUnequal{
    {.name = "hierarchical_unequal",
     .connect = [](int ranks) { return connect_hierarchical_ranks(ranks, unequal, true); },
     .ranks = exactly({4, 8}),
     .host = unequal}};

}  // namespace
}  // namespace hora
