// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/delivery.h"
#include "core/comm/leavers.h"
#include "core/comm/matching.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

namespace hora::local {

/// The messages between ranks that are threads of one process. Each rank has a box, with a mutex, for the
/// messages sent to it and for its receives that wait. Sender and receiver find each other in the receiver's
/// box; the one that comes second copies the content, on its own thread. Thread-safe.
///
/// Protocol. No deadlock: no mutex is taken while another is held, and no callback runs under one. Each
/// message and each receive ends once: it is in one box, or was taken out by one thread, which ends it.
/// Nothing is left behind by `close`. It sets `closed` of its rank (release) before it looks into the boxes.
/// `put` reads that (acquire) under the mutex of the box into which it puts a message. So `close` finds the
/// message there, or the message is not put there. `hear_leave` notes the leaver under the mutex of its own
/// rank's box, and then looks into the leaver's. `send` puts a lent message there, and then looks whether the
/// leaver is noted. So one of them, or both, see the other's; the one that takes the message out ends it.
class MessageBoxes {
 public:
  explicit MessageBoxes(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) boxes_.emplace_back(rank, ranks);
  }

  // Messenger's functions, for `rank`; the sender is `message.envelope.source`.
  void send(const Outgoing& message);
  void receive(int rank, Incoming waiting);
  std::optional<Envelope> probe(int rank, const Wanted& wanted);
  void leave(int rank);
  void hear_leave(int rank, int leaver);
  /// Ends the sends and receives of this rank that are under way, and all later ones, with `why`. The sends
  /// and receives of other ranks are left to their own `close`.
  void close(int rank, const Status& why);

 private:
  /// A message that no receive has matched yet.
  struct Parcel {
    const void* elements = nullptr;
    std::shared_ptr<std::byte> copy;               // owns `elements`; null: the sender lends them
    std::function<void(const Status&)> sent = {};  // if they are lent: Outgoing::done
  };
  struct Box {
    Box(int rank, int ranks) : leavers(rank, ranks) {}
    std::mutex mutex;
    Matching<Parcel> matching;
    Leavers leavers;  // as far as its rank has heard
    std::atomic<bool> leaves = false;
    std::optional<Status> why;  // its rank has closed it
    std::atomic<bool> closed = false;
  };
  Box& box(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }
  void throw_if_closed(int rank);
  /// The reason why a message of this rank to another one is lost.
  std::optional<Status> loss(int rank, int to);
  /// Removes this rank's lent messages from all boxes, or from that of `only`; adds their `sent` to `calls`.
  void take_back(int rank, const Status& why, Calls& calls, std::optional<int> only);

  enum class Where : std::uint8_t { claimed, kept, not_kept, closed };
  struct Put {
    Where where;
    std::optional<Incoming> wanted;  // claimed: the receive that has waited for the message
  };
  /// Finds a receive that waits for the message (claimed). If there is none, puts the message into the box
  /// (kept), or not if `keep` is false. Does neither if its sender has called `close`.
  Put put(int to, const Envelope& envelope, Parcel& parcel, bool keep);

  std::deque<Box> boxes_;
};

/// The Messenger of one rank.
std::unique_ptr<Messenger> make_local_messenger(std::shared_ptr<MessageBoxes> boxes, int rank);

}  // namespace hora::local
