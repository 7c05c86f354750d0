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

/// A communicator of our own, which carries our messages alone, and the flag that ends waiting on it.
///
/// Protocol: the engine alone calls MPI, and never blocks in it. It starts messages (MPI_Isend, MPI_Irecv)
/// and tests them in a loop, which also reads `aborted_`. `abort`, from any thread, writes the reason under
/// the mutex and then sets the flag (release). The loop reads the flag (acquire), then the reason under the
/// mutex. So an abort ends a wait within one turn, though MPI itself cannot be interrupted. After an abort
/// the communicator is not used again and not freed: that would wait for the others, and one may be dead.
/// Transfers that were under way then are given up (MpiTransfers::wait). A process that still hangs, because
/// another library's MPI call waits for the dead rank, can only be ended, as mpirun does by itself.
///
/// *Engine only*, except `progress` and `abort`.
class Channel {
 public:
  /// The largest message, bytes; MPI's counts are of type int.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  /// Takes over `communicator`. A transfer that is longer than `most_bytes` goes as several messages; the
  /// same on all ranks.
  Channel(std::shared_ptr<Session> session, MPI_Comm communicator, std::size_t most_bytes = kMostBytes);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;

  /// Messages have come and gone. *Engine only.*
  void moved() noexcept { moves_.fetch_add(1, std::memory_order_relaxed); }
  /// How often. Thread-safe.
  [[nodiscard]] std::uint64_t progress() const noexcept { return moves_.load(std::memory_order_relaxed); }

  void abort(const Status& why) noexcept;
  /// Throws Error after `abort`, and if the program has ended MPI.
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

/// Messages of MPI that are under way together. Those between two ranks arrive in the order in which they
/// were started, on both sides, whatever set of messages they are in: nothing else says which is which. The
/// memory belongs to MPI until `wait` returns or throws, or this is destroyed. The channel outlives it.
/// *Engine only*.
class MpiTransfers {
 public:
  explicit MpiTransfers(Channel& channel) : channel_(channel) {}
  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;
  ~MpiTransfers() { give_up(); }

  /// No message at all if there are no bytes; the receiver knows that.
  void send(int to, const void* data, std::size_t bytes);
  void receive(int from, void* data, std::size_t bytes);
  /// A message without bytes, for its own sake.
  void send_signal(int to) { start_send(to, nullptr, 0); }
  void receive_signal(int from) { start_receive(from, nullptr, 0); }

  /// Until all are complete; then this may be used anew. Throws Error(aborted) after an abort, and
  /// Error(internal) if a message is not as long as expected, because the ranks do not mean the same call.
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
