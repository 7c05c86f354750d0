// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>
#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace hora {

/// What is written on a message between two ranks. A value.
struct Envelope {
  int from = 0;  ///< the rank that sent it
  int tag = 0;   ///< chosen by the sender, from 0
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;
  bool operator==(const Envelope&) const = default;
};

/// A message to be sent.
struct Outgoing {
  int to = 0;
  Envelope envelope;
  const void* data = nullptr;  ///< lent until `done`
  /// Called once, from any thread; must not block or throw.
  std::function<void(const Status&)> done;
};

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

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
