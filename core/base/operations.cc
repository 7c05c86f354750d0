// SPDX-License-Identifier: Apache-2.0
#include "core/base/operations.h"

#include <array>

namespace hora {
namespace {

/// A row for each Operation, in the order of their numbers.
constexpr std::array<OperationTraits, kOperations> kOperationRows{{
    {.name = "allreduce", .reduces = true, .packs = true, .fuses = true, .from_joined = FromJoined::neutral},
    {.name = "broadcast", .has_root = true, .fuses = true},
    {.name = "allgather", .by_rows = true, .sizes_output = true, .from_joined = FromJoined::no_rows},
    {.name = "barrier", .has_tensor = false},
    {.name = "alltoall", .by_rows = true, .sizes_output = true},
    {.name = "reducescatter", .reduces = true, .packs = true, .by_rows = true},
    {.name = "join", .has_tensor = false},
    {.name = "add_process_set", .has_tensor = false},
    {.name = "remove_process_set", .has_tensor = false},
    {.name = "gather", .has_root = true, .by_rows = true, .sizes_output = true},
    {.name = "scatter", .has_root = true, .by_rows = true, .sizes_output = true},
    {.name = "reduce", .reduces = true, .packs = true, .has_root = true},
    {.name = "scan", .reduces = true, .on_gpu = false},
}};

}  // namespace

const OperationTraits& traits(Operation operation) {
  return kOperationRows.at(static_cast<std::size_t>(operation));
}

std::string_view name(Operation operation) { return traits(operation).name; }

bool sizes_its_output(Operation operation) { return traits(operation).sizes_output; }

bool concerns_members(Operation operation) {
  return !traits(operation).has_tensor && operation != Operation::barrier;
}

}  // namespace hora
