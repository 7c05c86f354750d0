// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/mpi/session.h"

#include <hora/status.h>

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace hora::mpi {

/// An MPI communicator that Hora alone uses, with a flag by which any thread can end a wait on it. It moves
/// nothing itself; MpiTransfers does.
///
/// Protocol. Only the engine calls MPI for messages, and never a call that blocks: MpiTransfers starts
/// messages (MPI_Isend, MPI_Irecv) and then loops over MPI_Testall and `check`. `abort`, from any thread,
/// writes `why_` under the mutex and then sets `aborted_` (release). `check` reads `aborted_` (acquire), then
/// `why_` under the mutex, and throws. So an abort ends a wait within one turn of the loop, although an MPI
/// call cannot be interrupted. No deadlock: nothing blocks under the mutex.
///
/// After an abort the communicator is neither used nor freed, as MPI_Comm_free may wait for all ranks, and
/// one may be dead. Transfers under way are given up. If the process hangs in an MPI call of another library
/// that waits for the dead rank, only the launcher can end it; mpirun does.
///
/// *Engine only*, except `progress` and `abort`.
class Channel {
 public:
  /// The largest message, bytes; MPI's counts are of type int.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  /// Owns `communicator`, and frees it at the end, unless it was aborted. A transfer longer than `most_bytes`
  /// goes as several messages, so this must be equal on all ranks.
  Channel(std::shared_ptr<Session> session, MPI_Comm communicator, std::size_t most_bytes = kMostBytes);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;

  /// Notes that a set of transfers is complete. *Engine only.*
  void moved() noexcept { moves_.fetch_add(1, std::memory_order_relaxed); }
  /// The number of sets that are complete. Thread-safe.
  [[nodiscard]] std::uint64_t progress() const noexcept { return moves_.load(std::memory_order_relaxed); }

  /// Makes every later `check` throw Error(why). The first call counts. Thread-safe.
  void abort(const Status& why) noexcept;
  /// Throws the Error of `abort`; and Error(aborted) if the program has called MPI_Finalize.
  void check();

 private:
  std::shared_ptr<Session> session_;
  MPI_Comm communicator_;
  std::size_t most_bytes_;
  std::atomic<std::uint64_t> moves_ = 0;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  Status why_;  // under the mutex
};

/// A set of MPI messages that are under way together. All have one tag, so a send matches a receive by order
/// alone: two ranks must start the messages between them in the same order, also over several sets. MPI may
/// use the memory until `wait` returns or throws, or this is destroyed. The channel must outlive this.
/// *Engine only.*
class MpiTransfers {
 public:
  explicit MpiTransfers(Channel& channel) : channel_(channel) {}
  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;
  ~MpiTransfers() { give_up(); }

  /// Starts a transfer. Without bytes there is no message at all; both ranks know the length.
  void send(int to, const void* data, std::size_t bytes);
  void receive(int from, void* data, std::size_t bytes);
  /// Starts a message without bytes, as a barrier needs it.
  void send_signal(int to) { start_send(to, nullptr, 0); }
  void receive_signal(int from) { start_receive(from, nullptr, 0); }

  /// Returns when all transfers are complete; then this may be used for the next set. Throws what
  /// Channel::check throws, and Error(internal) if a message does not have the expected length: the ranks
  /// make different calls.
  void wait();

 private:
  void start_send(int to, const void* data, std::size_t bytes);
  void start_receive(int from, void* data, std::size_t bytes);
  bool test();
  void check_lengths();
  void give_up() noexcept;

  struct Expected {
    int from = 0;  ///< negative: it is one that we send
    std::size_t bytes = 0;
  };
  Channel& channel_;
  std::vector<MPI_Request> requests_;
  std::vector<Expected> expected_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace hora::mpi
