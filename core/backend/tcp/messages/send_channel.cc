// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/send_channel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

namespace hora::tcp {
namespace {

std::span<const std::byte> elements_of(const Outgoing& message) {
  return {static_cast<const std::byte*>(message.data), content_bytes(message.envelope)};
}

}  // namespace

void SendChannel::send(Outgoing message, Calls& calls) {
  const auto elements = elements_of(message);
  const std::size_t taken = cost(elements.size());
  if (elements.size() <= kMostUnasked && ahead_ + taken <= kCredit) {
    ahead_ += taken;
    writer_.put({encode({MessageFrameKind::whole, 0, message.envelope}), elements, std::move(message.done)});
  } else {
    writer_.put({encode({MessageFrameKind::announcement, ++number_, message.envelope})});
    announced_.emplace(number_, std::move(message));
  }
  if (is_open()) writer_.flush(socket_, calls);
}

void SendChannel::say_last(std::shared_ptr<void> told, Calls& calls) {
  told_ = std::move(told);
  writer_.put({encode({MessageFrameKind::last, 0, {}})});
  if (is_open()) writer_.flush(socket_, calls);
}

void SendChannel::take_back(const Status& why, Calls& calls) {
  taken_back_ = true;
  for (auto& [number, message] : std::exchange(announced_, {}))
    calls.emplace_back([done = std::move(message.done), why] { done(why); });
}

void SendChannel::open(DataSocket socket, SessionKeys heads, Calls& calls) {
  socket_ = std::move(socket);
  reader_.open(std::move(heads.receives));
  writer_.open(std::move(heads.sends));
  writer_.flush(socket_, calls);
}

pollfd SendChannel::event() const {
  return {socket_.fd(), static_cast<short>(POLLIN | (writer_.idle() ? 0 : POLLOUT)), 0};
}

void SendChannel::turn(Calls& calls) {
  while (const auto received = reader_.next(socket_)) hear(received->frame, calls);
  writer_.flush(socket_, calls);
}

void SendChannel::hear(const MessageFrame& frame, Calls& calls) {
  const bool chooses = frame.kind == MessageFrameKind::request || frame.kind == MessageFrameKind::refusal;
  if (chooses && taken_back_ && !announced_.contains(frame.number)) return;  // sent before it knew
  if (frame.kind == MessageFrameKind::request) {
    Outgoing message = announced(frame.number);
    if (message.taken) calls.emplace_back(std::move(message.taken));
    const auto elements = elements_of(message);
    writer_.put({encode({MessageFrameKind::content, frame.number, {}}), elements, std::move(message.done)});
  } else if (frame.kind == MessageFrameKind::refusal) {
    calls.emplace_back([done = announced(frame.number).done] { done({}); });
  } else if (frame.kind == MessageFrameKind::last_heard) {
    calls.emplace_back([told = std::exchange(told_, {})] {});
  } else if (frame.kind == MessageFrameKind::last_answer) {
    writer_.put({encode({MessageFrameKind::last_answer_heard, 0, {}})});
  } else {
    if (frame.number > ahead_) throw Error(Code::internal, "bad message: more credit than was used");
    ahead_ -= frame.number;
  }
}

Outgoing SendChannel::announced(std::uint64_t number) {
  auto found = announced_.extract(number);
  if (found.empty())
    throw Error(Code::internal, fmt::format("bad message: rank {} asks for what it was not offered", to_));
  return std::move(found.mapped());
}

void SendChannel::fail(const Status& why, Calls& calls) {
  writer_.fail(why, calls);
  take_back(why, calls);
  calls.emplace_back([told = std::exchange(told_, {})] {});
  ahead_ = 0;
  taken_back_ = false;
  number_ = 0;  // the receiver knows no number, or will hear nothing more
}

void SendChannel::shut_down() const {
  if (is_open()) ::shutdown(socket_.fd(), SHUT_RDWR);
}

}  // namespace hora::tcp
