// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <hora/hora.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hora {

inline constexpr std::size_t kMostNameBytes = 4096;
inline constexpr std::size_t kMostDimensions = 64;
inline constexpr std::size_t kMostReasonBytes = 32 * 1024;
inline constexpr std::size_t kMostMessageBytes = 64 * 1024;  // of a status; one may quote a name and a reason

/// What one rank asks for: everything about an entry that the other ranks must agree with. A value.
struct Request {
  Operation operation = Operation::allreduce;
  std::string name;
  DType dtype = DType::float32;
  DType wire = DType::float32;  ///< equal to dtype: nothing is converted
  std::vector<std::int64_t> shape;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  int root = 0;
  bool absent = false;

  bool operator==(const Request&) const = default;
};

/// The number of elements of a shape. Throws Error(invalid_argument) if a dimension is negative, or if that
/// many elements of `dtype` are more bytes than 2^62.
[[nodiscard]] std::int64_t elements(const std::vector<std::int64_t>& shape, DType dtype);

/// "float32[64,3,7,7]"
[[nodiscard]] std::string describe(DType dtype, const std::vector<std::int64_t>& shape);

/// The text, or as many of its first characters (UTF-8) as fit into `most` bytes.
[[nodiscard]] std::string shortened(std::string text, std::size_t most);

/// What all ranks will do about one tensor, or why they will not. A value.
struct Decision {
  Status status;                   ///< not ok: the tensor fails on every rank, and `request` only names it
  Request request;                 ///< as agreed; `shape` of an allgather is that of its output
  std::vector<std::int64_t> rows;  ///< allgather: the first dimension that each rank brings
  bool contributed = true;         ///< false: the tensor is absent on every rank

  bool operator==(const Decision&) const = default;
};

/// A decision that has been made before is called by this number; see Schedule.
using DecisionId = std::uint64_t;

/// The requests that travel together to rank 0. A value.
struct Ballot {
  std::uint64_t heard = 0;          ///< how many verdicts the sender has applied
  std::vector<DecisionId> repeats;  ///< asks again for what led to these decisions; ascending
  std::vector<Request> requests;    ///< asks for the first time, or for something else than before
  bool leaving = false;             ///< asks for nothing more, ever

  bool operator==(const Ballot&) const = default;
};

/// The decisions that travel together from rank 0, in the order in which every rank carries them out. A
/// value.
struct Verdict {
  struct Item {
    DecisionId repeat = 0;  ///< when `decision` has no name: the decision of that number, once more
    Decision decision;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool end = false;  ///< every rank has left

  bool operator==(const Verdict&) const = default;
};

/// To bytes and back. Decoding checks every length and enumerator against the number of ranks and throws
/// Error(internal) for what no rank would send.
[[nodiscard]] Bytes encode(const Ballot& ballot);
[[nodiscard]] Bytes encode(const Verdict& verdict);
[[nodiscard]] Ballot decode_ballot(std::span<const std::byte> bytes, int size);
[[nodiscard]] Verdict decode_verdict(std::span<const std::byte> bytes, int size);

}  // namespace hora
