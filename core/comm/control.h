// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/comm/tree.h"

#include <hora/status.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace hora {

/// A small message from the engine of another rank. A value.
struct ControlMessage {
  int from = 0;
  Bytes bytes{};     ///< not empty
  TimePoint came{};  ///< when it arrived here, however long it waited to be received
};

/// A rank is gone, or the job has failed. A value.
struct PeerLost {
  int rank = 0;  ///< -1: no rank is to blame
  Status why{};  ///< how it was noticed
};

using ControlEvent = std::variant<ControlMessage, PeerLost>;

/// The message that an event is. Throws Error with the reason if a rank is lost.
[[nodiscard]] inline ControlMessage expect_message(ControlEvent event) {
  if (auto* lost = std::get_if<PeerLost>(&event)) throw Error(std::move(lost->why));
  return std::get<ControlMessage>(std::move(event));
}

/// The time for which a rank that sees a connection of its own break waits for control to say which rank has
/// ended. Control holds the news of a failure back for up to two seconds, until the process has ended.
inline constexpr std::chrono::seconds kUntilControlTells{3};

/// Small messages between ranks, by which they agree, and by which they learn that a rank is gone. Messages
/// of one sender arrive in order. Any rank may send to rank 0 and to its parent in a tree, and rank 0 to any
/// rank. Messages that rank 0 announces go down that tree. The implementations hand them on by their own
/// means, whatever the engines do. Each survivor gets exactly one PeerLost, for the first rank that is lost.
///
/// Implementations own their I/O; `send` and `receive` are *engine only*, the rest is *thread-safe*.
class Control {
 public:
  virtual ~Control() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  [[nodiscard]] virtual const TreePosition& position() const = 0;

  /// Queues a message and returns; never blocks on the reader. `bytes` is not empty. A message to a lost rank
  /// vanishes. `to`: rank 0, this rank's parent, or from rank 0 any other.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;

  /// Rank 0: a message to some of the others, which gets there after all that was announced before it. Each
  /// rank has it before any that are below it in the tree: messages that they send because of it come after
  /// it.
  virtual void announce(const RankSet& to, std::span<const std::byte> bytes) = 0;

  /// The next event. Nothing: the deadline passed.
  virtual std::optional<ControlEvent> receive(TimePoint deadline) = 0;

  /// `notice` runs when an event has come, on any thread; it must not block. Pass {} to clear it, which waits
  /// for a running one. Messages through shared memory ring the wake-up of the vote instead.
  virtual void on_event(std::function<void()> notice) = 0;

  /// Tells every rank that this one fails, and why: they get a PeerLost with this status.
  virtual void fail(const Status& why) = 0;

  /// Ends the job on every rank, this one too, with this status, which blames nobody: each gets it as a
  /// PeerLost of rank -1, and as a notice. The first loss counts.
  virtual void call_off(const Status& why) = 0;

  /// `notice` runs on the I/O thread, or on that of a `call_off`, as soon as a rank is lost. It does so also
  /// while the engine is blocked elsewhere; here and at once if one is lost already; perhaps twice. It must
  /// only do thread-safe work (Collective::abort). Set before the engine starts; pass {} to clear it, which
  /// waits for a running one.
  virtual void on_loss(std::function<void(const Status&)> notice) = 0;
};

}  // namespace hora
