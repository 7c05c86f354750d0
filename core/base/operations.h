// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <cstdint>
#include <string_view>

namespace hora {

/// The contribution of a rank that has joined, when the other ranks carry out an operation.
enum class FromJoined : std::uint8_t {
  refused,  ///< the operation fails with an error
  neutral,  ///< elements that do not change the result
  no_rows,  ///< a tensor without rows
};

/// The properties of an operation that the engine needs to know. One row for each Operation.
struct OperationTraits {
  std::string_view name;   ///< as in MPI
  bool has_tensor = true;  ///< a barrier, or a change of members, has none
  bool reduces = false;    ///< has a ReduceOp and scale factors
  bool packs = false;      ///< it reduces with a Packer, or in blocks: floats may travel as Entry::wire
  bool has_root = false;
  bool by_rows = false;       ///< tensors are cut or joined along the first dimension
  bool sizes_output = false;  ///< ranks may bring different numbers of rows; see sizes_its_output
  bool fuses = false;         ///< several tensors may travel in one batch
  bool on_gpu = true;         ///< NCCL alone can carry it out
  FromJoined from_joined = FromJoined::refused;
};

/// The row of an operation.
[[nodiscard]] const OperationTraits& traits(Operation operation);

/// Whether an operation changes or counts the members of a group: join, and the operations on process sets.
[[nodiscard]] bool concerns_members(Operation operation);

}  // namespace hora
