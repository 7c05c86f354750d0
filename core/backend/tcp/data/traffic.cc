// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/traffic.h"

#include "core/base/clock.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace hora::tcp {
namespace {

constexpr std::size_t kMostPieces = 64;  // per system call
// While little is to come it is soon there: to sleep and to be woken takes longer than a round on a fast
// network.
constexpr std::size_t kSpinUpTo = 64 * 1024;
constexpr std::chrono::microseconds kSpin(50);

std::size_t bytes_of(const Pieces& pieces) {
  std::size_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  return total;
}

std::string name_of(Purpose purpose) {
  constexpr std::array<const char*, kPurposes> kNames{"input", "partial", "result", "block", "row", "copy"};
  const auto index = static_cast<std::size_t>(purpose);
  return index < kNames.size() ? kNames[index] : fmt::format("unknown ({})", index);
}

/// Whether a call on a non-blocking socket came to nothing for now; if not, and it failed, it failed for
/// good.
bool is_blocked(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

}  // namespace

void add_piece(Pieces& pieces, const void* data, std::size_t bytes) {
  if (bytes > 0) pieces.emplace_back(static_cast<std::byte*>(const_cast<void*>(data)), bytes);
}

Traffic::Traffic(Mesh& mesh, std::span<const int> peers) : mesh_(mesh), call_(mesh.begin_call(peers)) {
  peers_.reserve(peers.size());
  for (const int rank : peers) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    for (DataLine* line : mesh.lines(rank)) peer.sockets.emplace_back().line = line;
  }
}

Traffic::Peer& Traffic::peer_of(int rank) {
  return *std::find_if(peers_.begin(), peers_.end(), [rank](const Peer& peer) { return peer.rank == rank; });
}

void Traffic::send(int peer, Purpose purpose, Pieces pieces, Notice gone) {
  Peer& to = peer_of(peer);
  queue(to, &Socket::out, to.out, purpose, std::move(pieces), std::move(gone));
}

void Traffic::receive(int peer, Purpose purpose, Pieces pieces, Notice come) {
  Peer& from = peer_of(peer);
  bytes_expected_ += bytes_of(pieces);
  queue(from, &Socket::in, from.in, purpose, std::move(pieces), std::move(come));
}

void Traffic::queue(Peer& peer, Flow Socket::* flow, Order& order, Purpose purpose, Pieces pieces,
                    Notice notice) {
  const std::uint32_t number = order.queued++;
  std::erase_if(pieces, [](const auto& piece) { return piece.empty(); });
  Message message;
  message.header = {call_, bytes_of(pieces), number, purpose};
  message.pieces = std::move(pieces);
  message.notice = std::move(notice);
  Socket& socket = peer.sockets[number % peer.sockets.size()];
  if (flow == &Socket::out)
    socket.line->heads.sends.seal(std::as_bytes(std::span(&message.header, 1)), message.head);
  (socket.*flow).messages.push_back(std::move(message));
  ++pending_;
}

void Traffic::run() {
  while (pending_ > 0) {
    bool moved = false;
    for (auto& peer : peers_) moved |= advance(peer);
    if (!moved && pending_ > 0) wait();
  }
}

/// A bit in each direction, so that neither waits for the other; whether anything moved.
bool Traffic::advance(Peer& peer) {
  bool moved = false;
  for (auto& socket : peer.sockets) {
    if (!socket.out.idle() && !socket.out.blocked) moved |= send_some(peer, socket);
    if (!socket.in.idle() && !socket.in.blocked) moved |= receive_some(peer, socket);
  }
  if (moved) {
    notify(peer, &Socket::out, peer.out);
    notify(peer, &Socket::in, peer.in);
  }
  return moved;
}

namespace {

/// Lists the rest of the pieces from `first` on, as system calls take it; returns how much of `vectors` is
/// used.
std::size_t list_pieces(const Pieces& pieces, std::size_t first, std::span<iovec> vectors) {
  std::size_t count = 0;
  for (std::size_t i = first; i < pieces.size() && count < vectors.size(); ++i) {
    vectors[count++] = {pieces[i].data(), pieces[i].size()};
  }
  return count;
}

/// Cuts off what is through; the first piece that is not.
std::size_t cut_off(Pieces& pieces, std::size_t first, std::size_t bytes) {
  while (bytes > 0) {
    auto& piece = pieces[first];
    const std::size_t part = std::min(bytes, piece.size());
    piece = piece.subspan(part);
    bytes -= part;
    if (piece.empty()) ++first;
  }
  return first;
}

}  // namespace

bool Traffic::send_some(Peer& peer, Socket& socket) {
  Message& message = socket.out.messages[socket.out.active];
  std::array<iovec, kMostPieces> vectors;
  std::size_t used = 0;
  if (message.headed < kHead)
    vectors[used++] = {message.head.data() + message.headed, kHead - message.headed};
  used += list_pieces(message.pieces, message.piece, std::span(vectors).subspan(used));
  const auto sent = socket.line->socket.send(std::span(vectors).first(used));
  if (is_blocked(sent)) socket.out.blocked = true;
  if (sent < 0 && errno != EAGAIN && errno != EINTR) mesh_.lost(peer.rank);
  if (sent <= 0) return false;
  mesh_.moved();
  auto bytes = static_cast<std::size_t>(sent);
  const std::size_t of_head = std::min(bytes, kHead - message.headed);
  message.headed += of_head;
  message.piece = cut_off(message.pieces, message.piece, bytes - of_head);
  if (message.through()) ++socket.out.active;
  return true;
}

bool Traffic::receive_some(Peer& peer, Socket& socket) {
  Message& message = socket.in.messages[socket.in.active];
  if (message.headed < kHead || (message.piece == 0 && message.header.bytes <= kTogether))
    return receive_head(peer, socket, message);
  std::array<iovec, kMostPieces> vectors;
  const std::size_t used = list_pieces(message.pieces, message.piece, vectors);
  const std::size_t got = receive(peer, socket, std::span(vectors).first(used));
  if (got == 0) return false;
  message.piece = cut_off(message.pieces, message.piece, got);
  if (message.through()) ++socket.in.active;
  return true;
}

/// How many bytes have come; 0: none for now.
std::size_t Traffic::receive(const Peer& peer, Socket& socket, std::span<const iovec> pieces) {
  ssize_t got = 0;
  try {
    got = socket.line->socket.receive(pieces);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("from rank {}: {}", mesh_.in_world(peer.rank), error.what()));
  }
  if (is_blocked(got)) socket.in.blocked = true;
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) mesh_.lost(peer.rank);
  if (got < 0) return 0;
  mesh_.moved();
  return static_cast<std::size_t>(got);
}

/// The header, and with it all of a small message; never what belongs to the next one.
bool Traffic::receive_head(Peer& peer, Socket& socket, Message& message) {
  if (!socket.together) socket.together = std::make_unique<std::byte[]>(kHead + kTogether);
  const std::size_t together = message.header.bytes <= kTogether ? message.header.bytes : 0;
  const std::size_t all = kHead + together;
  const iovec rest{socket.together.get() + message.headed, all - message.headed};
  const std::size_t got = receive(peer, socket, std::span(&rest, 1));
  if (got == 0) return false;
  const bool had_header = message.headed >= kHead;
  message.headed += got;
  if (!had_header && message.headed >= kHead) check(peer, socket, message);
  if (message.headed < all) return true;
  const std::byte* from = socket.together.get() + kHead;
  if (together > 0) {
    for (const auto& piece : message.pieces) {
      std::memcpy(piece.data(), from, piece.size());
      from += piece.size();
    }
    message.piece = message.pieces.size();
  }
  if (message.through()) ++socket.in.active;
  return true;
}

/// Throws Error(internal) unless the head that has come is that of the message.
void Traffic::check(const Peer& peer, Socket& socket, const Message& message) const {
  Header theirs;
  try {
    socket.line->heads.receives.open(std::span(socket.together.get(), kHead),
                                     std::as_writable_bytes(std::span(&theirs, 1)));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("from rank {}: {}", mesh_.in_world(peer.rank), error.what()));
  }
  const Header& ours = message.header;
  if (theirs.call == ours.call && theirs.bytes == ours.bytes && theirs.number == ours.number &&
      theirs.purpose == ours.purpose)
    return;
  const auto text = [](const Header& header) {
    return fmt::format("{} of {} bytes as number {} of call {}", name_of(header.purpose), header.bytes,
                       header.number, header.call);
  };
  throw Error(Code::internal,
              fmt::format("ranks {} and {} make different calls: the one expects {}, and the other sends {}",
                          mesh_.in_world(mesh_.rank()), mesh_.in_world(peer.rank), text(ours), text(theirs)));
}

void Traffic::notify(Peer& peer, Flow Socket::* flow, Order& order) {
  while (order.noticed < order.queued) {
    Flow& next = peer.sockets[order.noticed % peer.sockets.size()].*flow;
    if (next.noticed == next.active) return;
    const Message message = std::move(next.messages[next.noticed++]);
    ++order.noticed;
    --pending_;
    if (message.notice) message.notice();  // may queue more
  }
}

/// Until something can be done.
void Traffic::wait() {
  std::vector<pollfd> events;
  std::vector<Socket*> sockets;
  for (auto& peer : peers_) {
    for (auto& socket : peer.sockets) {
      const int wanted = (socket.out.idle() ? 0 : POLLOUT) | (socket.in.idle() ? 0 : POLLIN);
      if (wanted == 0) continue;
      events.push_back({socket.line->socket.fd(), static_cast<short>(wanted), 0});
      sockets.push_back(&socket);
    }
  }
  int ready = 0;
  if (bytes_expected_ <= kSpinUpTo && mesh_.may_spin()) {
    const TimePoint until = Clock::now() + kSpin;
    while (ready == 0 && Clock::now() < until) ready = ::poll(events.data(), events.size(), 0);
    mesh_.has_spun(ready == 0);
  }
  if (ready == 0) ::poll(events.data(), events.size(), -1);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if ((events[i].revents & ~POLLIN) != 0) sockets[i]->out.blocked = false;
    if ((events[i].revents & ~POLLOUT) != 0) sockets[i]->in.blocked = false;
  }
}

}  // namespace hora::tcp
