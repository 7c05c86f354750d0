// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/message.h>
#include <hora/status.h>

#include <cstddef>
#include <functional>
#include <optional>

namespace hora {

/// A message to be sent.
struct Outgoing {
  int to = 0;
  Envelope envelope;
  const void* data = nullptr;  ///< lent until `done`
  /// Called once, from any thread, without any lock held; must not block or throw.
  std::function<void(const Status&)> done;
  /// Called at most once, before `done`, as that: the receiver has asked for the elements.
  std::function<void()> taken = {};
};

/// A message that is waited for.
struct Incoming {
  int source = kAnySource;
  int tag = kAnyTag;
  /// Where its elements are to be written. Throws Error if it is not the message that was expected: it is
  /// lost then. Called once, from any thread, without any lock held, when it has been found.
  std::function<void*(const Envelope& found)> place;
  /// Called once, as `done` of Outgoing. `found`: the message that came, also if it was not expected;
  /// nullptr: none.
  std::function<void(const Status&, const Envelope* found)> done;
};

/// Bytes of a message that its sender need not keep until it is asked for.
inline constexpr std::size_t kMostUnasked = 64 * 1024;

/// The reason why a rank that has left sends nothing.
inline const Status kHasLeft{Code::aborted, "this rank has left the job (shutdown)"};

/// Messages from one rank to another, at any time, without the others: point to point, as in MPI. Messages of
/// one sender that a receiver could both take are taken in the order in which they were sent.
///
/// Small messages, and those to the own rank, are done for their sender without the receiver; large ones when
/// the receiver has taken them.
///
/// A rank that leaves the job says so with `leave`, which tells it when all that it has sent has come to the
/// receivers; only then do the others hear of it (over the control plane), and say so with `hear_leave`. So a
/// receive that finds nothing when its sender has left will never find anything. That cannot hang: messengers
/// read all that comes, whatever their ranks do, and a rank that cannot be reached counts as told.
/// Thread-safe.
class Messenger {
 public:
  virtual ~Messenger() = default;

  /// Starts to send. Throws what `abort` said; everything else is told to `done`, such as Error(unavailable)
  /// if there is no way to the rank.
  virtual void send(Outgoing message) = 0;
  /// Starts to receive. Throws what `abort` said.
  virtual void receive(Incoming wanted) = 0;
  /// The message that a `receive` of these would take at once, if there is one. Throws what `abort` said.
  [[nodiscard]] virtual std::optional<Envelope> probe(int source, int tag) = 0;
  /// This rank sends nothing more: `send` throws Error(aborted) from now on. `done` is called once, like that
  /// of a message. That is when the receivers have all that it has sent, and the senders know what it has
  /// refused, or never will. Call it once.
  virtual void leave(std::function<void()> done) = 0;
  /// Another rank has left: receives that wait for it alone end, and so do sends that it has not asked for,
  /// all with Error(aborted). Receives from any source end so when all others have left. `probe` of that rank
  /// throws it where nothing is left. Messages that it has sent can still be received.
  virtual void hear_leave(int rank) = 0;
  /// Ends everything that is under way, here or soon on another thread, and all that follows, with this
  /// status: a caller that hears that a rank has left says so here. Idempotent: the first status counts.
  virtual void abort(const Status& why) noexcept = 0;
};

}  // namespace hora
