// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_writer.h"

#include "core/backend/tcp/messages/message_frame.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hora::tcp {
namespace {

constexpr std::size_t kMostWrittenAtOnce = 1 << 20;  // so that other sockets get their turn
constexpr std::size_t kPieces = 32;

/// Pieces of memory for one call of send.
class Vectors {
 public:
  [[nodiscard]] bool full() const { return count_ + 2 > kPieces || room_ == 0; }
  /// Adds all but the first `skipped` bytes of a piece, as far as there is room. Returns how many bytes must
  /// still be skipped.
  std::size_t add(std::span<const std::byte> bytes, std::size_t skipped) {
    const std::size_t skip = std::min(skipped, bytes.size());
    const std::size_t length = std::min(bytes.size() - skip, room_);
    if (length > 0) pieces_[count_++] = {const_cast<std::byte*>(bytes.data()) + skip, length};
    room_ -= length;
    return skipped - skip;
  }
  [[nodiscard]] ssize_t send(DataSocket& socket) {
    while (true) {
      const auto sent = socket.send(std::span(pieces_).first(count_));
      if (sent >= 0 || errno != EINTR) return sent;
    }
  }

 private:
  std::array<iovec, kPieces> pieces_;
  std::size_t count_ = 0;
  std::size_t room_ = kMostWrittenAtOnce;
};

}  // namespace

void MessageWriter::open(Cipher cipher) {
  cipher_ = std::move(cipher);
  for (auto& chunk : chunks_) chunk.head = seal_message_head(*cipher_, chunk.head);
}

void MessageWriter::put(Chunk chunk) {
  if (cipher_) chunk.head = seal_message_head(*cipher_, chunk.head);
  chunks_.push_back(std::move(chunk));
}

void MessageWriter::flush(DataSocket& socket, Calls& calls) {
  for (std::size_t all = 0; !idle() && all < kMostWrittenAtOnce;) {
    const auto sent = write_some(socket);
    if (sent < 0) {
      broken_ = errno != EAGAIN;
      if (broken_) ::shutdown(socket.fd(), SHUT_RDWR);  // the thread that reads it notices
      return;
    }
    all += static_cast<std::size_t>(sent);
    advance(static_cast<std::size_t>(sent), calls);
  }
}

ssize_t MessageWriter::write_some(DataSocket& socket) {
  Vectors pieces;
  std::size_t skipped = written_;
  for (const auto& chunk : chunks_) {
    if (pieces.full()) break;
    skipped = pieces.add(chunk.head, skipped);
    skipped = pieces.add(chunk.elements, skipped);
  }
  return pieces.send(socket);
}

void MessageWriter::advance(std::size_t bytes, Calls& calls) {
  written_ += bytes;
  while (!chunks_.empty()) {
    Chunk& first = chunks_.front();
    const std::size_t whole = first.head.size() + first.elements.size();
    if (written_ < whole) return;
    written_ -= whole;
    if (first.done) calls.emplace_back([done = std::move(first.done)] { done({}); });
    chunks_.pop_front();
  }
}

void MessageWriter::fail(const Status& why, Calls& calls) {
  for (auto& chunk : chunks_) {
    if (chunk.done) calls.emplace_back([done = std::move(chunk.done), why] { done(why); });
  }
  chunks_.clear();
  written_ = 0;
}

}  // namespace hora::tcp
