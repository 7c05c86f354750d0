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

/// The messages that this rank sends to other ranks: a SendChannel to each of them, opened when it is first
/// needed. TcpMessenger has the protocol of the threads. Nothing blocks.
class MessageSender {
 public:
  /// `places[r]`: the addresses of rank r. `wake_up`, which must live longer: rings when the I/O thread has
  /// to call `turn`.
  MessageSender(const World& world, const Config& config, std::vector<std::vector<Address>> places,
                const EventFd& wake_up);

  // Any thread. See Messenger.

  void send(Outgoing message);
  /// Drops `told` when all receivers have got all messages, or cannot be reached.
  void leave(const std::shared_ptr<void>& told);
  void hear_leave(int rank);
  /// The next `turn` ends all messages that are under way.
  void abort(const Status& why) noexcept;

  // The I/O thread.

  /// The caller waits for these events, or this time, before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// Does what can be done without waiting. False after `abort`: all has ended.
  bool turn(TimePoint now);

 private:
  struct Peer {
    explicit Peer(int to) : channel(to) {}
    SendChannel channel;
    std::optional<ConnectionLoss> loss;
    [[nodiscard]] bool connected() const { return channel.is_open() && !loss; }
  };
  // Under the mutex.
  [[nodiscard]] std::optional<Status> loss(const Peer& peer, int rank) const;
  void exchange(TimePoint now, Calls& calls);
  void end(Calls& calls);
  // Without it.
  void dial();

  const std::string encryption_;
  const EventFd& wake_up_;
  Dialer dialer_;  // I/O thread only

  mutable std::mutex mutex_;  // for all that follows
  std::map<int, Peer> peers_;
  Leavers leavers_;
  bool leaves_ = false;  // this rank
  std::optional<Status> aborted_;
};

}  // namespace hora::tcp
