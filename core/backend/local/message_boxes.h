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

/// The messages between ranks that are threads: one box for each rank, each with its own lock. The side that
/// comes second, sender or receiver, copies the elements, on its own thread. Thread-safe.
///
/// No lock is taken while another is held, and nothing foreign runs under one. A message or a receive belongs
/// to the box that it is in, and to the thread that has taken it out. So each is ended once. `closed` of a
/// rank is set before `close` looks into the boxes. It is read under the lock of the box into which a message
/// or a receive is put. So `close` finds it there, or it is not put there.
class MessageBoxes {
 public:
  explicit MessageBoxes(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) boxes_.emplace_back(rank, ranks);
  }

  void send(const Outgoing& message);
  void receive(int rank, Incoming wanted);
  std::optional<Envelope> probe(int rank, int source, int tag);
  /// This rank sends nothing more.
  void leave(int rank);
  /// This rank hears that another has left.
  void hear_leave(int rank, int leaver);
  /// Ends what this rank has under way; the others end what they have under way with it.
  void close(int rank, const Status& why);

 private:
  /// A message that nobody has asked for yet.
  struct Parcel {
    const void* elements = nullptr;
    std::shared_ptr<std::byte> copy;               // owns them, or they are lent:
    std::function<void(const Status&)> sent = {};  // to be told when they have been taken
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
  /// Takes back what this rank has lent to others' boxes, or `only` to that one's.
  void take_back(int rank, const Status& why, Calls& calls, std::optional<int> only);

  enum class Where : std::uint8_t { claimed, kept, not_kept, closed };
  struct Put {
    Where where;
    std::optional<Incoming> wanted;  // claimed: who has waited for the message
  };
  /// Puts a message into a box, unless somebody waits for it there, or its sender has closed its own.
  Put put(int to, const Envelope& envelope, Parcel& parcel, bool keep);

  std::deque<Box> boxes_;
};

/// `rank`'s view of the boxes.
std::unique_ptr<Messenger> make_local_messenger(std::shared_ptr<MessageBoxes> boxes, int rank);

}  // namespace hora::local
