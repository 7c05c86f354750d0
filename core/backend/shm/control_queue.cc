// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/control_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace hora::shm {

bool ControlQueue::put(std::uint64_t number, TimePoint sent, std::span<const std::byte> bytes) {
  const std::uint64_t at = written_.load(std::memory_order_relaxed);
  const std::uint64_t used = at - taken_.load(std::memory_order_acquire);
  if (sizeof(Head) + bytes.size() > kBytes - used) return false;
  const Head head{number, sent.time_since_epoch().count(), bytes.size()};
  copy_in(at, std::as_bytes(std::span(&head, 1)));
  copy_in(at + sizeof(Head), bytes);
  written_.store(at + sizeof(Head) + bytes.size(), std::memory_order_release);
  return true;
}

std::optional<std::uint64_t> ControlQueue::look() const {
  const std::uint64_t at = taken_.load(std::memory_order_relaxed);
  if (written_.load(std::memory_order_acquire) == at) return std::nullopt;
  return head_at(at).number;
}

QueuedMessage ControlQueue::take() {
  const std::uint64_t at = taken_.load(std::memory_order_relaxed);
  const std::uint64_t there = written_.load(std::memory_order_acquire) - at;
  const Head head = there < sizeof(Head) ? Head{} : head_at(at);
  if (there > kBytes || there < sizeof(Head) || head.size > there - sizeof(Head)) {
    throw Error(Code::internal, fmt::format("a queue of control messages has {} bytes, and a message of {}",
                                            there, head.size));
  }
  QueuedMessage message{head.number, TimePoint(Clock::duration(head.sent)), Bytes(head.size)};
  copy_out(at + sizeof(Head), message.bytes);
  taken_.store(at + sizeof(Head) + head.size, std::memory_order_release);
  return message;
}

ControlQueue::Head ControlQueue::head_at(std::uint64_t at) const {
  Head head{};
  copy_out(at, std::as_writable_bytes(std::span(&head, 1)));
  return head;
}

void ControlQueue::copy_in(std::uint64_t at, std::span<const std::byte> from) {
  const std::size_t begin = at % kBytes;
  const std::size_t until_end = std::min(from.size(), kBytes - begin);
  std::ranges::copy(from.first(until_end), bytes_.begin() + static_cast<std::ptrdiff_t>(begin));
  std::ranges::copy(from.subspan(until_end), bytes_.begin());
}

void ControlQueue::copy_out(std::uint64_t at, std::span<std::byte> to) const {
  const std::size_t begin = at % kBytes;
  const std::size_t until_end = std::min(to.size(), kBytes - begin);
  const auto rest = std::ranges::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                                        static_cast<std::ptrdiff_t>(until_end), to.begin());
  std::ranges::copy_n(bytes_.begin(), static_cast<std::ptrdiff_t>(to.size() - until_end), rest.out);
}

}  // namespace hora::shm
