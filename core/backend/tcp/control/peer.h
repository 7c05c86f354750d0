// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/control/loss_policy.h"
#include "core/comm/world.h"
#include "core/join/handshake.h"

#include <deque>
#include <functional>
#include <span>
#include <string>

namespace hora::tcp {

/// One connection of control's, to another rank. The I/O thread reads; any thread queues and writes, under
/// control's mutex, which guards `queue`, `flush`, `has_unsent` and `close`.
class Peer {
 public:
  /// A connection of the star. `self`: this rank. The end of a process that can be seen from here is watched.
  Peer(Member who, Connection connection, const Member& self, TimePoint now);
  /// A link of the tree, beside the star.
  Peer(Member who, Connection connection, TimePoint now);

  [[nodiscard]] const Member& member() const { return member_; }
  [[nodiscard]] bool is_tree_link() const { return tree_link_; }
  [[nodiscard]] Watched watched() const;

  // I/O thread only:
  /// -1: closed.
  [[nodiscard]] int socket() const { return socket_.fd(); }
  /// A pidfd, readable when the rank's process has ended; -1: it cannot be seen from here.
  [[nodiscard]] int process() const { return process_.fd(); }
  [[nodiscard]] bool process_has_ended() const;
  /// When something came last.
  [[nodiscard]] TimePoint heard() const { return heard_; }
  void set_heard(TimePoint now) { heard_ = now; }
  /// It has ended in order.
  [[nodiscard]] bool has_left() const { return left_; }
  void set_left() { left_ = true; }
  /// Reads what has arrived, without waiting, and gives the frames to `take`. Returns how the connection
  /// ended; empty: it has not.
  std::string read(const std::function<void(Frame)>& take);

  // Under control's mutex:
  /// Appends a frame, if anything is written still.
  void queue(FrameKind kind, std::span<const std::byte> contents);
  /// Writes what the socket takes without waiting. The I/O thread notices a failure when it reads.
  void flush();
  [[nodiscard]] bool has_unsent() const { return !out_.empty(); }
  [[nodiscard]] bool is_open() const { return open_; }
  /// Writes nothing more; what the other end has still to say can be read.
  void end_writing();
  /// Writes and reads nothing more.
  void close();

 private:
  Member member_;
  Descriptor socket_;
  Descriptor process_;
  bool tree_link_ = false;
  bool in_other_space_ = false;
  FrameReader frames_;
  TimePoint heard_;
  bool left_ = false;
  Cipher sends_;
  std::deque<Bytes> out_;  // sealed, in this order
  std::size_t sent_ = 0;   // of out_.front()
  bool open_ = true;       // false: nothing is written any more
};

}  // namespace hora::tcp
