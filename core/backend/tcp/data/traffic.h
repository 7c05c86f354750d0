// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hora::tcp {

/// Pieces of memory, one after the other. A piece that is only sent is not written to.
using Pieces = std::vector<std::span<std::byte>>;

/// Adds a piece, if it is one.
void add_piece(Pieces& pieces, const void* data, std::size_t bytes);

/// The purpose of a message; both sides must mean the same.
enum class Purpose : std::uint32_t {
  input,    ///< one rank's elements, to be reduced
  partial,  ///< a sum of some ranks' elements
  result,   ///< of a reduction
  block,    ///< of an allgather; without bytes: of a barrier
  row,      ///< of an alltoall
  copy,     ///< of a broadcast
};
inline constexpr int kPurposes = 6;

/// The messages that this rank sends and receives in one call of a mesh.
///
/// `send` and `receive` only queue messages; `run` moves them, on the caller's thread. It polls all sockets,
/// and never waits to send while there is something to receive. When a message has been sent or received,
/// `run` calls its notice, a callback, which may queue further messages for the same `run`. So this rank
/// works on elements that have arrived while others are on their way.
///
/// Messages between two ranks keep the order in which they are queued. The receiver queues each message that
/// it expects, in the order in which the sender queues them. With k sockets to a peer, message i goes over
/// socket i mod k. Both ends count alike, so the wire need not say it. Notices still come in order.
///
/// Each message has a sealed header: the number of the call, the message's index between these two ranks in
/// this call, its purpose and its length. All are checked before any byte is written to the receiver's
/// memory.
///
/// No deadlock, if algorithms keep this rule. All messages of a call have one order, which agrees with the
/// order of queueing between any two ranks. A rank queues a message at the latest when all its messages that
/// are before it in that order are through. Then the first message that is not through is queued at both
/// ends, and nothing is before it on its socket, so it moves. Every algorithm here shows that it keeps the
/// rule.
class Traffic {
 public:
  using Notice = std::function<void()>;

  /// Begins a call between this rank and `peers`, in which no rank is twice. All of them begin the call, too.
  /// Throws what Mesh::begin_call throws.
  Traffic(Mesh& mesh, std::span<const int> peers);
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// Queues a message to a peer. Its memory must stay unchanged until `gone` is called, or `run` returns.
  void send(int peer, Purpose purpose, Pieces pieces, Notice gone = {});
  /// Queues a message that is expected from a peer. Its memory holds the content when `come` is called, or
  /// `run` returns.
  void receive(int peer, Purpose purpose, Pieces pieces, Notice come = {});

  /// Returns when all messages that were queued, before or in notices, have been sent or received. May be
  /// called again. Throws Error(aborted) if a peer closes its socket, and after Mesh::abort. Throws
  /// Error(internal) if a header is not the expected one: the ranks make different calls.
  void run();

 private:
  struct Header {
    std::uint64_t call = 0;
    std::uint64_t bytes = 0;
    std::uint32_t number = 0;
    Purpose purpose = Purpose::input;
  };
  /// Elements that have a header and fit are received together with it, then copied.
  static constexpr std::size_t kTogether = 4096;
  static constexpr std::size_t kHead = sizeof(Header) + kSealBytes;

  struct Message {
    Header header;
    std::array<std::byte, kHead> head{};  // out: sealed
    Pieces pieces;
    Notice notice;
    std::size_t headed = 0;  // bytes of the head that are through; of what is received together, all
    std::size_t piece = 0;   // the first that is not through; what is through is cut off its beginning

    [[nodiscard]] bool through() const { return headed >= kHead && piece == pieces.size(); }
  };

  /// One direction of one socket.
  struct Flow {
    std::vector<Message> messages;
    std::size_t active = 0;   // the first that is not through
    std::size_t noticed = 0;  // the first without notice
    bool blocked = false;     // until poll says otherwise

    [[nodiscard]] bool idle() const { return active == messages.size(); }
  };

  struct Socket {
    DataLine* line = nullptr;
    Flow out;
    Flow in;
    std::unique_ptr<std::byte[]> together;  // NOLINT(modernize-avoid-c-arrays): a buffer
  };

  /// The notices of one direction, in order over all sockets of a peer.
  struct Order {
    std::uint32_t queued = 0;
    std::uint32_t noticed = 0;
  };

  struct Peer {
    int rank = 0;
    std::vector<Socket> sockets;
    Order out;
    Order in;
  };

  Peer& peer_of(int rank);
  void queue(Peer& peer, Flow Socket::* flow, Order& order, Purpose purpose, Pieces pieces, Notice notice);
  bool advance(Peer& peer);
  bool send_some(Peer& peer, Socket& socket);
  bool receive_some(Peer& peer, Socket& socket);
  bool receive_head(Peer& peer, Socket& socket, Message& message);
  std::size_t receive(const Peer& peer, Socket& socket, std::span<const iovec> pieces);
  void check(const Peer& peer, Socket& socket, const Message& message) const;
  void notify(Peer& peer, Flow Socket::* flow, Order& order);
  void wait();

  Mesh& mesh_;
  std::uint64_t call_;
  std::vector<Peer> peers_;
  std::size_t pending_ = 0;         // messages without notice
  std::size_t bytes_expected_ = 0;  // of this call so far
};

}  // namespace hora::tcp
