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
/// To and from each peer messages go in the order in which they are queued. The receiver queues the messages
/// that it expects, in the order in which the sender sends them. One thread polls all sockets and does
/// whatever can be done: it never waits to send while there is something to receive. A message that is queued
/// in the notice that another has come, or has gone, flows in the same poll loop. So this rank works on the
/// elements that have arrived while the rest is on its way.
///
/// Each message has a header, which is sealed. It has the number of the call, the message's place among those
/// of this call between these ranks, its purpose and its length. All are checked before a byte of what
/// follows reaches the memory it is meant for. Message i goes over socket i mod k of the k to a peer, and
/// notices come in order in spite of it. Both sides count alike, so no more need be said about it on the
/// wire.
///
/// No deadlock: order the messages of a call by when they are queued. If each is queued at the latest when
/// all that are before it at the same place in all ranks' programs have arrived, then the first message that
/// is not through is queued on both sides, and nothing is before it on its socket. Every algorithm here shows
/// that it queues so.
class Traffic {
 public:
  using Notice = std::function<void()>;

  /// Begins a call in which these ranks, and none twice, are spoken to; all of them begin it, too. Throws
  /// what Mesh::begin_call throws.
  Traffic(Mesh& mesh, std::span<const int> peers);
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// The memory is to stay, and as it is, until `gone`.
  void send(int peer, Purpose purpose, Pieces pieces, Notice gone = {});
  void receive(int peer, Purpose purpose, Pieces pieces, Notice come = {});

  /// Returns when everything that was queued, before or in notices, is through. May be called again. Throws
  /// Error(aborted) when a peer closes its socket or after Mesh::abort, and Error(internal) when the ranks do
  /// not mean the same call.
  void run();

 private:
  struct Header {
    std::uint64_t call = 0;
    std::uint64_t bytes = 0;
    std::uint32_t place = 0;
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
