// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_reader.h"

#include "core/comm/delivery.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::size_t kMostAtOnce = 1 << 20;  // so that other sockets get their turn

/// The number of bytes that have come; 0 if there are none for the moment.
std::size_t receive(DataSocket& socket, std::span<std::byte> memory) {
  const iovec piece{memory.data(), std::min(memory.size(), kMostAtOnce)};
  const auto got = socket.receive(std::span(&piece, 1));
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  throw Error(Code::unavailable, got == 0 ? "it was closed at the other end" : std::strerror(errno));
}

bool comes_from_sender(MessageFrameKind kind) {
  return kind == MessageFrameKind::whole || kind == MessageFrameKind::announcement ||
         kind == MessageFrameKind::content || kind == MessageFrameKind::last ||
         kind == MessageFrameKind::last_answer_heard;
}

}  // namespace

std::optional<MessageReader::Received> MessageReader::next(DataSocket& socket) {
  while (true) {
    if (content_) {
      if (!fill_content(socket)) return std::nullopt;
      return Received{{MessageFrameKind::content, std::exchange(content_, std::nullopt)->number, {}}, {}};
    }
    if (auto received = parse()) return received;
    if (!content_ && !fill(socket)) return std::nullopt;
  }
}

std::optional<MessageReader::Received> MessageReader::parse() {
  if (!frame_ && !open_head()) return std::nullopt;
  Received received{*frame_, {}};
  if (received.frame.kind == MessageFrameKind::whole) {
    const std::size_t elements = content_bytes(received.frame.envelope);
    if (unread().size() < elements) return std::nullopt;
    received.elements = unread().first(elements);
  }
  frame_.reset();
  begin_ += received.elements.size();
  if (received.frame.kind != MessageFrameKind::content) return received;
  begin_content(received.frame.number);
  return std::nullopt;
}

bool MessageReader::open_head() {
  if (!length_) {
    if (unread().size() < kSealedLengthBytes) return false;
    length_ = open_message_length(*cipher_, unread().first(kSealedLengthBytes));
    begin_ += kSealedLengthBytes;
  }
  const std::size_t sealed = *length_ + kSealBytes;
  if (unread().size() < sealed) return false;
  frame_ = decode_message_frame(open_message_head(*cipher_, unread().first(sealed)), from_);
  begin_ += sealed;
  length_.reset();
  if (comes_from_sender(frame_->kind) != static_cast<bool>(destination_))
    throw Error(Code::internal, "bad message: it comes from the wrong side");
  return true;
}

void MessageReader::begin_content(std::uint64_t number) {
  const auto memory = destination_(number);
  const auto here = unread().first(std::min(unread().size(), memory.size()));
  std::copy(here.begin(), here.end(), memory.begin());
  begin_ += here.size();
  content_ = Content{number, memory.subspan(here.size())};
}

bool MessageReader::fill(DataSocket& socket) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && buffer_.size() - begin_ < longest_) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t got = receive(socket, std::span(buffer_).subspan(end_));
  end_ += got;
  return got > 0;
}

bool MessageReader::fill_content(DataSocket& socket) {
  auto& left = content_->left;
  for (std::size_t all = 0; !left.empty() && all < kMostAtOnce;) {
    const std::size_t got = receive(socket, left);
    if (got == 0) break;
    left = left.subspan(got);
    all += got;
  }
  return left.empty();
}

}  // namespace hora::tcp
