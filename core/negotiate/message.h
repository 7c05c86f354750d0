// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/comm/group.h"
#include "core/comm/rank_set.h"

#include <hora/hora.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora {

inline constexpr std::size_t kMostNameBytes = 4096;
inline constexpr std::size_t kMostSetNameBytes = 1024;
inline constexpr std::size_t kMostDimensions = 64;
inline constexpr std::size_t kMostFailureBytes = 4096;  // of Request::failed_with
inline constexpr std::size_t kMostReasonBytes = 32 * 1024;
inline constexpr std::size_t kMostMessageBytes = 64 * 1024;  // of a status; one may quote a name and a reason

/// The request of one rank: everything about an entry that the other ranks must agree with. A value.
struct Request {
  Operation operation = Operation::allreduce;
  std::string name;
  DType dtype = DType::float32;
  DType wire = DType::float32;  ///< equal to dtype: nothing is converted
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< Entry::strides
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  int root = 0;  ///< of the world, also in other groups
  bool absent = false;
  std::string bundle;                  ///< what belongs together fails together: the name of its first tensor
  std::vector<std::int64_t> splits;    ///< alltoall: the rows for each place, or none: equal parts
  std::vector<int> ranks;              ///< add_process_set, remove_process_set: its members, ascending
  std::string set_name = {};           ///< add_process_set; empty: all ranks ask, else its members only
  bool divide_by_initial_size = true;  ///< join
  DeviceKind device = DeviceKind::host;
  /// Where it lies in memory from Runtime::allocate for a GPU, if it is reduced in place there; 0: elsewhere.
  /// Need not be equal: a decision has it if it is.
  std::uint64_t symmetric_address = 0;
  bool padded = false;  ///< with a symmetric address: Entry::padded; a decision is, if it is on all ranks
  bool check_finite = false;     ///< allreduce
  std::string failed_with = {};  ///< not empty: Entry::failed_with; a decision has none

  bool operator==(const Request&) const = default;
};

/// Whether the elements of a reduction travel as block-scaled floats, whose dtype is `wire`.
[[nodiscard]] inline bool travels_in_blocks(const Request& request) {
  return request.wire != request.dtype && is_float8(request.wire);
}

/// The number of elements of a shape. Throws Error(invalid_argument) if a dimension is negative, or if that
/// many elements of `dtype` are more bytes than 2^62.
[[nodiscard]] std::int64_t elements(const std::vector<std::int64_t>& shape, DType dtype);

/// "float32[64,3,7,7]"
[[nodiscard]] std::string describe(DType dtype, const std::vector<std::int64_t>& shape);

/// "allreduce float32[64,3,7,7]"
[[nodiscard]] std::string describe(const Request& request);

/// Whether only some ranks of the group ask for this: `Request::ranks`, of a process set that has a name.
[[nodiscard]] inline bool is_of_some(const Request& request) { return !request.set_name.empty(); }

/// The text, or as many of its first characters (UTF-8) as fit into `most` bytes.
[[nodiscard]] std::string shortened(std::string text, std::size_t most);

/// The operation that all ranks will do on one tensor, or the reason why they will not. A value.
struct Decision {
  Status status;    ///< not ok: the tensor fails on every rank, and `request` only names it
  Request request;  ///< as agreed; `shape` of an allgather is that of its output
  /// allgather: the first dimension that each place brings. alltoall: how many rows go from each place to
  /// each, those of the first place first.
  std::vector<std::int64_t> rows;
  bool contributed = true;  ///< false: the tensor is absent on every rank
  int divisor = 1;          ///< of an average
  std::vector<int> joined;  ///< the places that have joined: they take part, but have no such tensor

  bool operator==(const Decision&) const = default;
};

/// A decision that has been made before is called by this number; see Schedule.
using DecisionId = std::uint64_t;

/// The name that a join has, in every group.
inline constexpr const char* kJoinName = "hora.join";

/// The name, in a process set that has a name, of the request by which a rank leaves it.
inline constexpr const char* kRemovalName = "hora.remove_process_set";

/// The kind of a report, which a rank sends to rank 0 beside its requests; not the coordinator's business.
enum class Report : std::uint8_t {
  none,
  trace,    ///< a part of the timeline
  account,  ///< the answer to an inquiry
  delay,    ///< what it is busy with, and for how long
  waits,    ///< its messages that have waited for long, whenever those change
};
inline constexpr int kReports = 5;

/// Some of the ranks that a ballot speaks for, which were later than the first of them, by so much. A value.
struct Late {
  RankSet ranks;
  Clock::duration behind{};
  bool operator==(const Late&) const = default;
};

/// The requests in one group that travel together to rank 0. A value.
struct Ballot {
  int group = kWorld;
  std::uint64_t heard = 0;          ///< how many verdicts the sender has applied; of several, the fewest
  std::vector<DecisionId> repeats;  ///< asks again for what led to these decisions; ascending
  std::vector<Request> requests;    ///< asks for the first time, or for something else than before
  bool leaving = false;             ///< asks for nothing more, ever
  bool stays_in_job = false;        ///< leaving the process set alone
  Report report = Report::none;     ///< with one it travels alone
  Bytes content = {};               ///< of the report
  // Of one that comes up in a tree:
  RankSet ranks = {};           ///< its ranks, each of which asks for all of it; empty: its sender
  Clock::duration age{};        ///< since the first of them asked, when it was sent
  std::vector<Late> late = {};  ///< those of them that were late, as far as it is worth a word

  bool operator==(const Ballot&) const = default;
};

/// The command about the timeline that rank 0 gives to all.
enum class TraceCommand : std::uint8_t { none, start, start_with_cycles, stop };
inline constexpr int kTraceCommands = 4;

/// The decisions in one group that travel together from rank 0, in the order in which every rank carries them
/// out. A value.
struct Verdict {
  int group = kWorld;
  struct Item {
    DecisionId repeat = 0;  ///< when `decision` has no name: the decision of that number, once more
    Decision decision;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool end = false;  ///< every member has left
  TraceCommand trace = TraceCommand::none;
  RankSet left = {};     ///< the world's: these have left since the last one, and all that they sent is there
  bool inquiry = false;  ///< rank 0 wants an account; travels alone, to one rank
  /// Not 0: from these decisions on that many bytes travel together at the most, where nobody has said how
  /// many may.
  std::uint64_t fuse_up_to = 0;
  /// Not empty: from the next decision on the ranks repeat these in this order (Lockstep), of which the
  /// present step has made the first `made`.
  std::vector<DecisionId> lock;
  std::uint64_t made = 0;
  std::vector<int> ended = {};  ///< the world's: groups that all members have left, to be removed after these

  bool operator==(const Verdict&) const = default;
};

/// To bytes and back. Decoding checks every length and enumerator against the number of ranks and throws
/// Error(internal) for what no rank would send.
[[nodiscard]] Bytes encode(const Ballot& ballot);
[[nodiscard]] Bytes encode(std::span<const Ballot> ballots);
[[nodiscard]] Bytes encode(const Verdict& verdict);
[[nodiscard]] std::vector<Ballot> decode_ballots(std::span<const std::byte> bytes, int size);
[[nodiscard]] Verdict decode_verdict(std::span<const std::byte> bytes, int size);

}  // namespace hora
