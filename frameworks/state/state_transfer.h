// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hora::state {

/// Gives the state of a training to ranks that have just joined, while all ranks compute the next step.
///
/// The memory is cut into chunks. Each rank that has the state sends its part of them, point to point, from
/// where they lie; the threads of the messenger do the work. Before the ranks vote for the step, all of them
/// call `confirm`: it compares a digest of what was sent with one of what has arrived. So no rank votes
/// without the state, and the senders may change it once the step counts.
///
/// All ranks make one, with as much memory in the same order, and in the same generation of the job. Not
/// thread-safe.
class StateTransfer {
 public:
  using Memory = std::span<std::byte>;

  /// Begins to send or to receive. `joins`: for each rank of the job, whether it gets the state; one at least
  /// does not. `state`: host memory, which must stay until this object ends. Throws Error, as Runtime::send.
  StateTransfer(Runtime& hora, const std::vector<bool>& joins, const std::vector<Memory>& state);
  /// Waits until nothing is under way: the generation has ended, or all ranks that join have received.
  ~StateTransfer();
  StateTransfer(const StateTransfer&) = delete;
  StateTransfer& operator=(const StateTransfer&) = delete;

  /// Waits until the state is here, on a rank that joins. Does nothing on others. Throws Error, such as
  /// generation_ended if a rank was lost; then the memory has no meaning.
  void await_state();
  /// Compares the memory of the ranks that have sent with that of the ranks that join, as it is now: all
  /// ranks call it once, before they vote. Throws Error as `await_state`; and Error(internal) if they differ,
  /// on the rank that joins.
  void confirm();

 private:
  struct Ranks {
    std::vector<int> have;  // the state
    std::vector<int> join;
    std::optional<std::size_t> self;  // the number of this rank among those that join
  };
  static Ranks ranks_of(const std::vector<bool>& joins, int self);
  StateTransfer(Runtime& hora, Ranks ranks, std::vector<Memory> chunks);
  /// The rank that sends this chunk to the rank that joins as number `joiner` of those that join.
  [[nodiscard]] int sender_of(std::size_t chunk, std::size_t joiner) const;
  /// The digests of the chunks that rank `from` sends to this one of the ranks that join.
  [[nodiscard]] std::vector<std::uint64_t> digests(int from, std::size_t joiner) const;
  [[nodiscard]] Handle send(int to, Memory memory);
  [[nodiscard]] Handle receive(int from, Memory memory);

  Runtime& hora_;
  const Ranks ranks_;
  const std::vector<Memory> chunks_;
  std::vector<Handle> under_way_;
};

}  // namespace hora::state
