// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/connection_loss.h"
#include "core/backend/tcp/messages/dialer.h"
#include "core/backend/tcp/messages/send_channel.h"
#include "core/base/event_fd.h"
#include "core/comm/leavers.h"

#include <map>
#include <mutex>
#include <optional>

namespace hora::tcp {

/// Sends the messages of this rank to other ranks. It has a SendChannel for each rank, which is opened when
/// it is first needed. TcpMessenger (tcp_messenger.cc) has the protocol of the threads. No function blocks.
class MessageSender {
 public:
  /// `places[r]`: the addresses at which rank r accepts connections. `wake_up` must outlive this object; it
  /// rings when the I/O thread must call `turn`.
  MessageSender(const World& world, const Config& config, std::vector<std::vector<Address>> places,
                const EventFd& wake_up);

  // Any thread. See Messenger.

  void send(Outgoing message);
  /// Says that this rank leaves, and so sends nothing more. Drops `told` when all receivers have all
  /// messages, or cannot be reached.
  void leave(const std::shared_ptr<void>& told);
  /// Ends the sends to a rank that has left, as far as it has not asked for them.
  void hear_leave(int rank);
  /// Makes the next `turn` end all messages that are under way with the status `why`.
  void abort(const Status& why) noexcept;

  // The I/O thread.

  /// Adds the events that the caller waits for before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  /// The latest time for the next `turn`.
  [[nodiscard]] TimePoint next() const;
  /// Does what is possible without waiting. Returns false after `abort`: all messages have then ended.
  bool turn(TimePoint now);

 private:
  struct Peer {
    explicit Peer(int to) : channel(to) {}
    SendChannel channel;
    std::optional<ConnectionLoss> loss;
    [[nodiscard]] bool connected() const { return channel.is_open() && !loss; }
  };
  // The caller of these holds the mutex.
  [[nodiscard]] std::optional<Status> loss(const Peer& peer, int rank) const;
  void exchange(TimePoint now, Calls& calls);
  void end(Calls& calls);
  // The caller of these does not hold the mutex.
  void dial();

  const std::string encryption_;
  const EventFd& wake_up_;
  Dialer dialer_;  // I/O thread only

  mutable std::mutex mutex_;  // guards all members below
  std::map<int, Peer> peers_;
  Leavers leavers_;
  bool leaves_ = false;  // whether this rank has called `leave`
  std::optional<Status> aborted_;
};

}  // namespace hora::tcp
