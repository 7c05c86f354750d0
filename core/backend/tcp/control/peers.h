// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/control/heartbeat.h"
#include "core/backend/tcp/control/peer.h"
#include "core/base/event_fd.h"
#include "core/comm/tree.h"

#include <poll.h>

#include <deque>
#include <utility>
#include <vector>

namespace hora::tcp {

/// All connections of one rank's control. Their number and what is written is guarded by control's mutex,
/// which callers of the functions below hold.
class Peers {
 public:
  /// `wake_up` wakes the I/O thread; it outlives this.
  Peers(const TreePosition& position, const EventFd& wake_up) : position_(position), wake_up_(wake_up) {}

  template <typename... Arguments>
  void add(Arguments&&... arguments) {
    peers_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  auto begin() { return peers_.begin(); }
  auto end() { return peers_.end(); }
  [[nodiscard]] auto begin() const { return peers_.begin(); }
  [[nodiscard]] auto end() const { return peers_.end(); }

  /// Sends a frame to one rank; the first connection to it counts.
  void tell(int rank, FrameKind kind, std::span<const std::byte> contents);
  /// Sends a frame to all ranks of the star but one.
  void tell_star(FrameKind kind, std::span<const std::byte> contents, int except = kNobody);
  /// Sends a message to those ranks of the star that are meant.
  void tell_directly(const RankSet& to, std::span<const std::byte> message);
  /// Sends an announcement to those children who are meant, or have such below them.
  void hand_on(const RankSet& to, std::span<const std::byte> announcement);
  /// Beats where nothing else is on its way.
  void beat();
  /// Queues the last frame of all connections.
  void send_leave();

  /// Adds what poll() waits for: all sockets, their ranks' processes, and that of `awaited` also after its
  /// socket. Returns when the first of them is silent for too long.
  TimePoint watch(std::vector<pollfd>& events, int awaited, const Heartbeat& heartbeat) const;
  /// Whether this rank's process has ended, as far as that can be seen from here.
  [[nodiscard]] bool process_has_ended(int rank) const;

  /// Whether all other ends have ended, too.
  [[nodiscard]] bool are_closed() const;
  /// Whether nothing is left to write.
  [[nodiscard]] bool have_written() const;

 private:
  void write(Peer& peer, FrameKind kind, std::span<const std::byte> contents);

  const TreePosition& position_;
  const EventFd& wake_up_;
  std::deque<Peer> peers_;
};

}  // namespace hora::tcp
