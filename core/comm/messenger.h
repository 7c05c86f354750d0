// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/message.h>
#include <hora/status.h>

#include <functional>
#include <optional>

namespace hora {

/// A message to be sent.
struct Outgoing {
  int to = 0;
  Envelope envelope;
  const void* data = nullptr;  ///< lent until `done`
  /// Called once, from any thread; must not block or throw.
  std::function<void(const Status&)> done;
};

/// A message that is waited for.
struct Incoming {
  int from = kAnySource;
  int tag = kAnyTag;
  /// Where its elements are to be written. Throws Error if it is not the message that was expected: it is
  /// lost then. Called once, from any thread, when it has been found.
  std::function<void*(const Envelope&)> place;
  /// Called once, from any thread; must not block or throw. The envelope is of what came, if something did.
  std::function<void(const Status&, const Envelope&)> done;
};

/// Messages from one rank to another, at any time, without the others: point to point, as in MPI. Messages of
/// one sender that a receiver could both take are taken in the order in which they were sent.
///
/// Small messages are complete for their sender when they have been copied; large ones when the receiver has
/// asked for them and they have been sent. Thread-safe.
class Messenger {
 public:
  virtual ~Messenger() = default;

  /// Throws Error(unavailable) if the rank cannot be reached, and what `abort` said.
  virtual void send(Outgoing message) = 0;
  /// Throws what `abort` said.
  virtual void receive(Incoming wanted) = 0;
  /// The message that a `receive` of these would take at once, if there is one.
  [[nodiscard]] virtual std::optional<Envelope> probe(int from, int tag) = 0;
  /// Ends everything that is under way, and all that follows, with this status. Idempotent.
  virtual void abort(const Status& why) noexcept = 0;
};

}  // namespace hora
