// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/receive_channel.h"

#include <sys/socket.h>

#include <utility>

namespace hora::tcp {
namespace {

constexpr std::size_t kCreditStep = kCredit / 8;  // credit is returned in steps, so not after each message

}  // namespace

void ReceiveChannel::write(const MessageFrame& frame, Calls& calls) {
  writer_.put({encode(frame)});
  flush(calls);
}

void ReceiveChannel::hear_whole(std::size_t bytes) {
  used_ += cost(bytes);
  if (used_ > kCredit) throw Error(Code::internal, "bad message: there was no credit for it");
}

void ReceiveChannel::hear_announcement(std::uint64_t number) {
  if (number != ++number_) throw Error(Code::internal, "bad message: it is not the next one");
}

void ReceiveChannel::hear(const MessageFrame& frame, Calls& calls) {
  if (frame.kind == MessageFrameKind::content) return finish(frame.number, calls);
  if (frame.kind == MessageFrameKind::last) return write({MessageFrameKind::last_heard, 0, {}}, calls);
  drop_told(calls);
}

void ReceiveChannel::request(std::uint64_t number, Reception reception, Calls& calls) {
  expected_.emplace(number, std::move(reception));
  write({MessageFrameKind::request, number, {}}, calls);
}

void ReceiveChannel::refuse(std::uint64_t number, Calls& calls) {
  write({MessageFrameKind::refusal, number, {}}, calls);
}

void ReceiveChannel::say_last(std::shared_ptr<void> told, Calls& calls) {
  told_ = std::move(told);
  write({MessageFrameKind::last_answer, 0, {}}, calls);
}

void ReceiveChannel::drop_told(Calls& calls) {
  calls.emplace_back([told = std::exchange(told_, {})] {});
}

void ReceiveChannel::give_credit(std::size_t bytes, Calls& calls) {
  taken_ += cost(bytes);
  if (taken_ < kCreditStep) return;
  used_ -= taken_;
  write({MessageFrameKind::credit, std::exchange(taken_, 0), {}}, calls);
}

std::span<std::byte> ReceiveChannel::destination(std::uint64_t number) const {
  const auto found = expected_.find(number);
  if (found == expected_.end())
    throw Error(Code::internal, "bad message: elements for which nobody has asked");
  return {found->second.memory, content_bytes(found->second.envelope)};
}

void ReceiveChannel::finish(std::uint64_t number, Calls& calls) {
  calls.emplace_back([reception = std::move(expected_.extract(number).mapped())] {
    reception.wanted.done({}, &reception.envelope);
  });
}

void ReceiveChannel::fail(const Status& why, Calls& calls) {
  writer_.fail(why, calls);
  for (auto& [number, reception] : std::exchange(expected_, {})) {
    calls.emplace_back([reception = std::move(reception), why] { reception.wanted.done(why, nullptr); });
  }
  drop_told(calls);
}

void ReceiveChannel::shut_down() const { ::shutdown(socket_.fd(), SHUT_RDWR); }

}  // namespace hora::tcp
