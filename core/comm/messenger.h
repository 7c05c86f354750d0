// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/message.h>
#include <hora/status.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace hora {

/// A message to be sent.
struct Outgoing {
  int to = 0;
  Envelope envelope;
  const void* data = nullptr;  ///< lent until `done`
  /// Called once, when the send has ended. It may run on any thread, also within `send`, and never under a
  /// lock of the messenger. It must not block or throw.
  std::function<void(const Status&)> done;
  /// Called before `done`, under the same rules, if the receiver has asked for the content of a large
  /// message. Not called if there was no need to ask.
  std::function<void()> taken = {};
};

/// The messages that a receive takes. A value.
struct Wanted {
  int source = kAnySource;
  int tag = kAnyTag;
  int process_set = 0;
  /// From any source: the ranks of the process set. Empty: all ranks.
  std::vector<int> members = {};
};

/// A receive.
struct Incoming {
  Wanted wanted;
  /// Returns the memory for the content. Called once, when a message has matched, under the rules of
  /// Outgoing::done. It may throw Error, if the message is not what the receive expects: that message is
  /// dropped.
  std::function<void*(const Envelope& found)> memory_for;
  /// Called once, under the rules of Outgoing::done. `found`: the message that matched, also if `memory_for`
  /// has thrown; nullptr: none has.
  std::function<void(const Status&, const Envelope* found)> done;
};

/// The largest message, in bytes, that may be sent before the receiver has asked for it (eager). The sender
/// of a larger one keeps it until then (rendezvous).
inline constexpr std::size_t kMostUnasked = 64 * 1024;

/// The reason why a rank that has left sends nothing.
inline const Status kHasLeft{Code::aborted, "this rank has left the job (shutdown)"};

/// Messages from one rank to another, at any time: point to point, as in MPI. Other ranks take no part. If a
/// receive matches several messages of one sender, it takes the one that was sent first.
///
/// A small message, and one to the own rank, may be done for its sender before the receiver takes it. A large
/// one is done when the receiver has taken it.
///
/// How a rank leaves the job. It calls `leave`. When that is done, all that it has sent has reached the
/// messengers of the receivers. Only then do the other ranks hear over the control plane that it has left,
/// and their engines call `hear_leave`. So a receive that finds no message of a rank that has left will never
/// find one. `leave` always gets done: messengers read all that comes, whatever their ranks do, and a rank
/// that cannot be reached does not count. Thread-safe.
class Messenger {
 public:
  virtual ~Messenger() = default;

  /// Starts to send. Throws the status of `abort`, and Error(aborted) after `leave`. All other errors go to
  /// `done`, such as unavailable if the rank cannot be reached.
  virtual void send(Outgoing message) = 0;
  /// Starts to receive. Throws the status of `abort`.
  virtual void receive(Incoming wanted) = 0;
  /// The message that such a `receive` would take at once, if there is one. Throws the status of `abort`, and
  /// Error(aborted) if that source has left and nothing of it is here.
  [[nodiscard]] virtual std::optional<Envelope> probe(const Wanted& wanted) = 0;
  /// Says that this rank sends nothing more. `done` is called once, under the rules of Outgoing::done: when
  /// all that this rank has sent has arrived, and senders know what it has refused. It is also called when
  /// that can no longer happen. Call `leave` once.
  virtual void leave(std::function<void()> done) = 0;
  /// Says that another rank has left. Receives from it that wait, and sends to it that it has not asked for,
  /// end with Error(aborted). So do receives from any source once all others have left. Messages that it has
  /// sent can still be received.
  virtual void hear_leave(int rank) = 0;
  /// Ends all messages that are under way, and all later ones, with this status: at once, or soon on another
  /// thread. Called when the job fails or ends. The first status counts.
  virtual void abort(const Status& why) noexcept = 0;
};

}  // namespace hora
