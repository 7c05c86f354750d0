// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/socket_io.h"

#include <hora/config.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace hora {

/// What goes to, or comes from, one peer in one exchange: pieces of memory, one after the other. A value.
struct Parcel {
  std::vector<std::span<std::byte>> pieces;

  void add(const void* data, std::size_t bytes) {
    if (bytes > 0) pieces.emplace_back(static_cast<std::byte*>(const_cast<void*>(data)), bytes);
  }
  [[nodiscard]] std::size_t bytes() const;
};

/// A socket between every two ranks, and exchanges over all of them at once.
///
/// In an exchange every rank sends one parcel to each peer and receives one from each. One thread polls all
/// sockets and does whatever can be done: it never waits to send while there is something to receive, so no
/// ring of ranks can block one another. Each parcel has a header with its number and length, which must be
/// what the receiver expects. *Engine only*, except `abort`.
class Mesh {
 public:
  using Sockets = std::vector<std::shared_ptr<const Descriptor>>;

  /// `sockets`: connected, by rank; none for the own one. Meshes may share sockets if all ranks use them in
  /// the same order, one at a time; they have different numbers.
  Mesh(int rank, Sockets sockets, std::uint32_t number = 0);
  ~Mesh();

  /// A mesh of some of these ranks, over the same sockets: which are its ranks in this order. `rank` is this
  /// one's in it. The same number as all members give, and no other mesh of these sockets.
  [[nodiscard]] std::unique_ptr<Mesh> split(int rank, std::span<const int> members,
                                            std::uint32_t number) const;

  /// By rank; the own one is ignored. Throws Error(aborted) when a peer closes its socket or after `abort`,
  /// and Error(internal) when the ranks do not mean the same exchange.
  void exchange(std::vector<Parcel>& outgoing, std::vector<Parcel>& incoming);

  void abort(const Status& why) noexcept;
  void throw_if_aborted();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(sockets_.size()); }

 private:
  class Flow;
  [[noreturn]] void lost(int rank);

  int rank_;
  Sockets sockets_;
  std::uint64_t sequence_;  // of exchanges; the mesh's number in its upper bits
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  std::condition_variable abortion_;
  Status why_;  // under the mutex
};

}  // namespace hora
