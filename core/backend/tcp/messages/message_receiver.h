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

/// The messages that this rank receives: each is matched with a receive, or kept until a receive asks for it.
/// It has a ReceiveChannel from each rank that has connected. TcpMessenger has the protocol of the threads.
/// Nothing blocks.
class MessageReceiver {
 public:
  /// This rank, and how many there are. `wake_up`, which must live longer: rings when the I/O thread has to
  /// call `turn`.
  MessageReceiver(int rank, int ranks, const EventFd& wake_up)
      : rank_(rank), ranks_(ranks), wake_up_(wake_up), leavers_(rank, ranks) {}

  // Any thread. See Messenger.

  void receive(Incoming wanted);
  [[nodiscard]] std::optional<Envelope> probe(int source, int tag) const;
  /// Receives a message that this rank sends to itself.
  void send_to_self(const Outgoing& message);
  /// Drops `told` when all senders know which messages this rank has refused, or cannot be reached.
  void leave(const std::shared_ptr<void>& told);
  void hear_leave(int rank);
  /// The next `turn` ends all receives that wait.
  void abort(const Status& why) noexcept;

  // The I/O thread.

  /// A rank has connected. Returns the socket to read from, which stays here; nullptr: it had connected
  /// before, and this connection is dropped. `cipher`: what the other side opens with.
  DataSocket* add(int from, DataSocket socket, Cipher cipher);
  /// A frame has come. Throws Error(internal) if no rank would send it.
  void hear(int from, const MessageReader::Received& received);
  /// Where the elements of an announced message go. Throws Error(internal) if nobody has asked for it.
  [[nodiscard]] std::span<std::byte> destination(int from, std::uint64_t number) const;
  /// Nothing more can be read from there.
  void lose(int from, const Error& error);
  /// Ends the receives that may need a rank which has not connected.
  void fail_unconnected(const Status& why);

  /// The caller waits for these events, or this time, before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// Does what can be done without waiting. False after `abort`: all has ended.
  bool turn(TimePoint now);

 private:
  /// A message that no receive has asked for yet.
  struct Arrival {
    std::uint64_t announced = 0;  // its number; 0: it is here
    std::shared_ptr<std::byte> elements;
  };
  struct Peer {
    Peer(DataSocket socket, Cipher cipher) : channel(std::move(socket), std::move(cipher)) {}
    ReceiveChannel channel;
    std::optional<ConnectionLoss> loss;
  };
  // Under the mutex.
  void throw_if_aborted() const {
    if (aborted_) throw Error(*aborted_);
  }
  [[nodiscard]] std::optional<Status> loss(int source) const;
  [[nodiscard]] std::optional<Status> broken(int source) const;
  void give_credit(const Envelope& envelope, Calls& calls);
  void flush(TimePoint now, Calls& calls);
  void end(Calls& calls);
  // Without it.
  std::optional<Incoming> claim_own(const Envelope& envelope, std::shared_ptr<std::byte> copy);
  void request(const Envelope& envelope, std::uint64_t number, Incoming wanted);
  void hear_whole(int from, const Envelope& envelope, std::span<const std::byte> elements);

  const int rank_;
  const int ranks_;
  const EventFd& wake_up_;

  mutable std::mutex mutex_;   // for all that follows
  std::map<int, Peer> peers_;  // by rank; only grows
  Matching<Arrival> matching_;
  Leavers leavers_;
  bool leaves_ = false;  // this rank
  std::optional<Status> aborted_;
};

}  // namespace hora::tcp
