// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/peers.h"

#include <algorithm>

namespace hora::tcp {

/// Writes at once when nothing is queued, which saves a hand-over, else leaves it to the I/O thread.
void Peers::write(Peer& peer, FrameKind kind, std::span<const std::byte> contents) {
  const bool idle = !peer.has_unsent();
  peer.queue(kind, contents);
  if (idle) peer.flush();
  if (peer.has_unsent()) wake_up_.ring();
}

void Peers::tell(int rank, FrameKind kind, std::span<const std::byte> contents) {
  for (auto& peer : peers_) {
    if (peer.member().rank == rank) return write(peer, kind, contents);
  }
}

void Peers::tell_star(FrameKind kind, std::span<const std::byte> contents, int except) {
  for (auto& peer : peers_) {
    if (!peer.is_tree_link() && peer.member().rank != except) write(peer, kind, contents);
  }
}

void Peers::tell_directly(const RankSet& to, std::span<const std::byte> message) {
  for (auto& peer : peers_) {
    if (to.contains(peer.member().rank)) write(peer, FrameKind::message, message);
  }
}

void Peers::hand_on(const RankSet& to, std::span<const std::byte> announcement) {
  for (auto& peer : peers_) {
    const int child = position_.child(peer.member().rank);
    if (child >= 0 && to.intersects(position_.below(static_cast<std::size_t>(child))))
      write(peer, FrameKind::announcement, announcement);
  }
}

void Peers::beat() {
  for (auto& peer : peers_) {
    if (peer.is_open() && !peer.has_unsent()) write(peer, FrameKind::beat, {});
  }
}

void Peers::send_leave() {
  for (auto& peer : peers_) peer.queue(FrameKind::leave, {});
}

TimePoint Peers::watch(std::vector<pollfd>& events, int awaited, const Heartbeat& heartbeat) const {
  TimePoint until = TimePoint::max();
  for (const auto& peer : peers_) {
    if (peer.socket() >= 0) {
      const auto wanted = static_cast<short>(peer.has_unsent() ? POLLIN | POLLOUT : POLLIN);
      events.push_back({peer.socket(), wanted, 0});
      until = std::min(until, heartbeat.ends(peer.heard()));
    }
    const bool wanted = peer.socket() >= 0 || peer.member().rank == awaited;
    if (wanted && peer.process() >= 0) events.push_back({peer.process(), POLLIN, 0});
  }
  return until;
}

bool Peers::process_has_ended(int rank) const {
  return std::any_of(peers_.begin(), peers_.end(), [rank](const Peer& peer) {
    return peer.member().rank == rank && peer.process_has_ended();
  });
}

bool Peers::are_closed() const {
  return std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.socket() >= 0; });
}

bool Peers::have_written() const {
  return std::none_of(peers_.begin(), peers_.end(),
                      [](const Peer& peer) { return peer.is_open() && peer.has_unsent(); });
}

}  // namespace hora::tcp
