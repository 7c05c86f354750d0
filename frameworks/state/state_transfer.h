// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hora::state {

/// Gives the state of a training to ranks that have just joined, while all ranks compute steps.
///
/// The state is cut into units: a parameter, and what the optimizer keeps of it. Between two steps it does
/// not change. So in each step the ranks that have the state send a part of it: some units, from where they
/// lie. A part is about as large as can be sent in half the time of a step, so nobody waits for long. Units
/// that have arrived are then kept up to date by the rank that joins: it takes part in each step, gets the
/// gradients that all get, and makes the optimizer's step. A small state is one part.
///
/// Each rank that has the state sends its share of a part, point to point; the threads of the messenger do
/// the work. Before the ranks vote for a step, all of them call `confirm`. When the last part has arrived, it
/// compares a digest of the whole state on both sides. So no rank counts as one with the state that has
/// another.
///
/// All ranks make one, in the same generation of the job, and call all functions alike. Not thread-safe.
class StateTransfer {
 public:
  using Memory = std::span<std::byte>;
  /// Memory whose values belong together.
  using Unit = std::vector<Memory>;

  /// `joins`: for each rank of the job, whether it gets the state; one at least does not.
  StateTransfer(Runtime& hora, const std::vector<bool>& joins);
  /// Waits until nothing is under way: the generation has ended, or all ranks that join have received.
  ~StateTransfer();
  StateTransfer(const StateTransfer&) = delete;
  StateTransfer& operator=(const StateTransfer&) = delete;

  /// Begins to send or to receive the next part, at the beginning of a step. `state`: all units, of host
  /// memory that stays until `confirm` has returned or this object has ended, alike on all ranks. `rest`:
  /// everything that is left is the next part. Returns how many units have been sent when this part has.
  /// Throws Error, as Runtime::send.
  std::size_t begin_part(const std::vector<Unit>& state, bool rest);
  /// Whether the whole state is there when the part under way is.
  [[nodiscard]] bool has_last_part() const { return sent_ == units_; }
  /// Waits until the part under way is here, on a rank that joins. Does nothing on others. Throws Error, such
  /// as generation_ended if a rank was lost; then the memory has no meaning.
  void await_part();

  enum class Outcome {
    more_follows,  ///< the next step begins with another part
    is_complete,   ///< all ranks have the same state
    /// Something else than gradients changes the state of the ranks. It is to be sent again, in one part.
    differs,
  };
  /// Waits until the part under way has arrived. After the last one it compares the memory of the ranks that
  /// have sent with that of the ranks that join, as it is now. All ranks call it once in a step, before they
  /// vote, and get the same, unless the state was one part and differs: then it throws Error(internal) on the
  /// rank that joins. Throws Error as `await_part`, too.
  [[nodiscard]] Outcome confirm();

 private:
  using Clock = std::chrono::steady_clock;
  struct Ranks {
    std::vector<int> have;  // the state
    std::vector<int> join;
    std::optional<std::size_t> self;  // the number of this rank among those that join
  };
  static Ranks ranks_of(const std::vector<bool>& joins, int self);
  /// The rank that sends this chunk to the rank that joins as number `joiner` of those that join.
  [[nodiscard]] int sender_of(std::size_t chunk, std::size_t joiner) const;
  void start(const std::vector<Memory>& chunks);
  /// A rank from which this one has got the state, and which has another one now; nothing: there is none.
  /// Throws Error.
  [[nodiscard]] std::optional<int> one_that_differs();
  /// The digests of the chunks of all units that rank `from` sends to this one of the ranks that join.
  [[nodiscard]] std::vector<std::uint64_t> digests(int from, std::size_t joiner) const;
  /// How much larger than the last part the next one may be, as far as this rank knows.
  [[nodiscard]] double growth(Clock::time_point computed) const;
  /// The least that any rank has said. All ranks call it.
  [[nodiscard]] double least(double own);
  [[nodiscard]] std::function<void(const Result&)> stamp() const;
  [[nodiscard]] Handle send(int to, Memory memory);
  [[nodiscard]] Handle receive(int from, Memory memory);

  Runtime& hora_;
  const Ranks ranks_;
  std::size_t part_bytes_;        // of the part under way; before it begins: how many it should have
  std::size_t units_ = 0;         // of the state
  std::size_t sent_ = 0;          // units, with the part under way
  int parts_ = 0;                 // with the part under way
  std::vector<Memory> compared_;  // the chunks of all units
  std::vector<Handle> under_way_;
  Clock::time_point begun_;  // the part under way
  /// When the last message of the part under way ended, in nanoseconds after it began. Threads of Hora write.
  std::shared_ptr<std::atomic<std::int64_t>> took_;
};

}  // namespace hora::state
