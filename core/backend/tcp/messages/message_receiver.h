// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/connection_loss.h"
#include "core/backend/tcp/messages/message_reader.h"
#include "core/backend/tcp/messages/receive_channel.h"
#include "core/base/event_fd.h"
#include "core/comm/leavers.h"
#include "core/comm/matching.h"

#include <map>
#include <mutex>
#include <optional>

namespace hora::tcp {

/// Receives the messages for this rank. Each message is matched with a receive, or kept until a receive asks
/// for it. There is a ReceiveChannel for each rank that has connected. TcpMessenger (tcp_messenger.cc) has
/// the protocol of the threads. No function blocks.
class MessageReceiver {
 public:
  /// `rank`: this rank; `ranks`: the number of ranks. `wake_up` must outlive this object; it rings when the
  /// I/O thread must call `turn`.
  MessageReceiver(int rank, int ranks, const EventFd& wake_up)
      : rank_(rank), ranks_(ranks), wake_up_(wake_up), leavers_(rank, ranks) {}

  // Any thread. See Messenger.

  void receive(Incoming waiting);
  [[nodiscard]] std::optional<Envelope> probe(const Wanted& wanted) const;
  /// Receives a message that this rank sends to itself.
  void send_to_self(const Outgoing& message);
  /// Says that this rank leaves. Drops `told` when all senders know what it has refused, or cannot be
  /// reached.
  void leave(const std::shared_ptr<void>& told);
  /// Ends the receives that only a rank that has left could satisfy.
  void hear_leave(int rank);
  /// Makes the next `turn` end all receives that wait, with the status `why`.
  void abort(const Status& why) noexcept;

  // The I/O thread.

  /// Adds the connection of a rank. Returns its socket, to read from; the receiver owns the socket. Returns
  /// nullptr and drops the connection if the rank had connected before. `cipher`: seals what this rank
  /// writes.
  DataSocket* add(int from, DataSocket socket, Cipher cipher);
  /// Handles a frame from a rank. Throws Error(internal) if no correct rank would send the frame.
  void hear(int from, const MessageReader::Received& received);
  /// The memory for the elements of an announced message. Throws Error(internal) if it was not asked for.
  [[nodiscard]] std::span<std::byte> destination(int from, std::uint64_t number) const;
  /// Notes that a connection is broken. Receives that need it fail a little later (ConnectionLoss).
  void lose(int from, const Error& error);
  /// Ends, with the status `why`, the receives that may need a rank that has not connected.
  void fail_unconnected(const Status& why);

  /// Adds the events that the caller waits for before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  /// The latest time for the next `turn`.
  [[nodiscard]] TimePoint next() const;
  /// Does what is possible without waiting. Returns false after `abort`: all messages have then ended.
  bool turn(TimePoint now);

 private:
  /// A message that no receive has asked for yet.
  struct Arrival {
    std::uint64_t announced = 0;  // the number of its announcement; 0: `elements` has the message
    std::shared_ptr<std::byte> elements;
  };
  struct Peer {
    Peer(DataSocket socket, Cipher cipher) : channel(std::move(socket), std::move(cipher)) {}
    ReceiveChannel channel;
    std::optional<ConnectionLoss> loss;
  };
  // The caller of these holds the mutex.
  void throw_if_aborted() const {
    if (aborted_) throw Error(*aborted_);
  }
  [[nodiscard]] std::optional<Status> loss(const Wanted& wanted) const;
  [[nodiscard]] bool is_unconnected(const Wanted& wanted) const;
  [[nodiscard]] std::optional<Status> broken(int source) const;
  void give_credit(const Envelope& envelope, Calls& calls);
  void flush(TimePoint now, Calls& calls);
  void end(Calls& calls);
  // The caller of these does not hold the mutex.
  std::optional<Incoming> claim_own(const Envelope& envelope, std::shared_ptr<std::byte> copy);
  void request(const Envelope& envelope, std::uint64_t number, Incoming wanted);
  void hear_whole(int from, const Envelope& envelope, std::span<const std::byte> elements);

  const int rank_;
  const int ranks_;
  const EventFd& wake_up_;

  mutable std::mutex mutex_;   // guards all members below
  std::map<int, Peer> peers_;  // by rank; only grows
  Matching<Arrival> matching_;
  Leavers leavers_;
  bool leaves_ = false;  // whether this rank has called `leave`
  std::optional<Status> aborted_;
};

}  // namespace hora::tcp
