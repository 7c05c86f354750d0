// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/mesh.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

struct Header {
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};

constexpr std::size_t kMostPieces = 64;  // per system call
constexpr int kSequenceBits = 40;

}  // namespace

std::size_t Parcel::bytes() const {
  std::size_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  return total;
}

/// One direction of one socket in one exchange: a header, then the parcel.
class Mesh::Flow {
 public:
  Flow(int fd, Parcel& parcel, std::uint64_t sequence) : fd_(fd), header_{sequence, parcel.bytes()} {
    pieces_.reserve(parcel.pieces.size() + 1);
    pieces_.push_back(std::as_writable_bytes(std::span(&header_, 1)));
    pieces_.insert(pieces_.end(), parcel.pieces.begin(), parcel.pieces.end());
  }

  [[nodiscard]] bool done() const { return next_ == pieces_.size(); }
  [[nodiscard]] bool has_header() const { return next_ > 0; }
  [[nodiscard]] const Header& header() const { return header_; }

  /// As much as goes without waiting; whether the connection is still there.
  bool send() { return move(::sendmsg, MSG_DONTWAIT | MSG_NOSIGNAL); }
  bool receive() { return move(::recvmsg, MSG_DONTWAIT); }
  /// Only the header: what follows is not read before that is checked.
  bool receive_header() {
    const std::size_t all = std::exchange(limit_, 1);
    const bool there = receive();
    limit_ = all;
    return there;
  }

 private:
  template <typename Call>
  bool move(Call call, int flags) {
    while (next_ < std::min(limit_, pieces_.size())) {
      std::array<iovec, kMostPieces> vectors;
      std::size_t count = 0;
      for (std::size_t i = next_; i < std::min(limit_, pieces_.size()) && count < kMostPieces; ++i) {
        vectors[count++] = {pieces_[i].data(), pieces_[i].size()};
      }
      msghdr message{};
      message.msg_iov = vectors.data();
      message.msg_iovlen = count;
      const auto moved = call(fd_, &message, flags);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return errno == EAGAIN;
      if (moved == 0) return false;
      advance(static_cast<std::size_t>(moved));
    }
    return true;
  }

  void advance(std::size_t bytes) {
    while (bytes > 0) {
      auto& piece = pieces_[next_];
      const std::size_t part = std::min(bytes, piece.size());
      piece = piece.subspan(part);
      bytes -= part;
      if (piece.empty()) ++next_;
    }
  }

  int fd_;
  Header header_;
  std::vector<std::span<std::byte>> pieces_;
  std::size_t next_ = 0;
  std::size_t limit_ = SIZE_MAX;
};

Mesh::Mesh(int rank, Sockets sockets, std::uint32_t number)
    : rank_(rank), sockets_(std::move(sockets)), sequence_(std::uint64_t{number} << kSequenceBits) {}
Mesh::~Mesh() = default;

std::unique_ptr<Mesh> Mesh::split(int rank, std::span<const int> members, std::uint32_t number) const {
  Sockets sockets;
  for (const int member : members) sockets.push_back(sockets_[static_cast<std::size_t>(member)]);
  return std::make_unique<Mesh>(rank, std::move(sockets), number);
}

void Mesh::exchange(std::vector<Parcel>& outgoing, std::vector<Parcel>& incoming) {
  throw_if_aborted();
  ++sequence_;
  std::vector<Flow> out;
  std::vector<Flow> in;
  std::vector<int> ranks;
  out.reserve(sockets_.size());  // a flow refers to its own header, so it must not move
  in.reserve(sockets_.size());
  for (std::size_t rank = 0; rank < sockets_.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    out.emplace_back(sockets_[rank]->fd(), outgoing[rank], sequence_);
    in.emplace_back(sockets_[rank]->fd(), incoming[rank], sequence_);
    ranks.push_back(static_cast<int>(rank));
  }
  std::vector<Header> expected;
  expected.reserve(in.size());
  for (const auto& flow : in) expected.push_back(flow.header());

  std::vector<pollfd> events(ranks.size());
  while (true) {
    bool done = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (!out[i].done() && !out[i].send()) lost(ranks[i]);
      if (!in[i].has_header()) {
        if (!in[i].receive_header()) lost(ranks[i]);
        if (in[i].has_header() && std::memcmp(&in[i].header(), &expected[i], sizeof(Header)) != 0) {
          throw Error(Code::internal,
                      fmt::format("ranks {} and {} make different calls: {} bytes as number {}, and {} "
                                  "bytes as number {}",
                                  rank_, ranks[i], expected[i].bytes, expected[i].sequence,
                                  in[i].header().bytes, in[i].header().sequence));
        }
      }
      if (in[i].has_header() && !in[i].done() && !in[i].receive()) lost(ranks[i]);
      const bool sends = !out[i].done();
      const bool receives = !in[i].done();
      events[i] = {sends || receives ? sockets_[static_cast<std::size_t>(ranks[i])]->fd() : -1,
                   static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0)), 0};
      done = done && !sends && !receives;
    }
    if (done) return;
    ::poll(events.data(), events.size(), -1);
  }
}

void Mesh::lost(int rank) {
  // A survivor that has heard of a death before us closes its sockets, too. Whose death it was comes by way
  // of control.
  constexpr std::chrono::seconds kPatience{1};
  {
    std::unique_lock lock(mutex_);
    abortion_.wait_for(lock, kPatience, [this] { return aborted_.load(std::memory_order_relaxed); });
  }
  throw_if_aborted();
  throw Error(Code::aborted, fmt::format("rank {} is gone: its data connection closed", rank));
}

void Mesh::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    why_ = why;
    aborted_.store(true, std::memory_order_release);
  }
  abortion_.notify_all();
  // Wakes the engine in poll(), there and here; the descriptors stay open until it has left.
  for (const auto& socket : sockets_) {
    if (socket) ::shutdown(socket->fd(), SHUT_RDWR);
  }
}

void Mesh::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error(why_);
}

}  // namespace hora
