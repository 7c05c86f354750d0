// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/base/clock.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hora::shm {

/// A control message in a queue. A value.
struct QueuedMessage {
  std::uint64_t number = 0;  ///< of all messages of its sender to this receiver, from 0
  TimePoint sent{};
  Bytes bytes{};
};

/// A queue of control messages from one rank to another of its host, in memory that both map. All zeros is
/// the valid first state, and trivially so: the memory is never constructed.
///
/// Protocol. The sender writes `bytes_` and `written_`, the receiver writes `taken_`. Both numbers count
/// bytes from the beginning, and only grow.
///
///   sender, `put`                                      receiver, `look` and `take`
///   a. if taken_ leaves no room: false    (acquire)    1. if written_ == taken_: nothing  (acquire)
///   b. copies the message behind written_              2. copies the message behind taken_
///   c. written_ += its length             (release)    3. taken_ += its length            (release)
///
/// A message is read whole: 1 reads a `written_` of c, and b comes before c. A message is overwritten only
/// after it was read: a reads a `taken_` of 3, and 2 comes before 3. Nobody waits here, so nothing can
/// deadlock. A sender that dies between b and c leaves no message. One thread of each side uses it at a time.
class ControlQueue {
 public:
  static constexpr std::size_t kBytes = 16 * 1024;

  /// Whether there was room for the message.
  [[nodiscard]] bool put(std::uint64_t number, TimePoint sent, std::span<const std::byte> bytes);
  /// The number of the first message; nothing if there is none.
  [[nodiscard]] std::optional<std::uint64_t> look() const;
  /// Removes the first message. There must be one. Throws Error(internal) for what no correct rank writes.
  [[nodiscard]] QueuedMessage take();

 private:
  struct Head {
    std::uint64_t number;
    Clock::rep sent;
    std::uint64_t size;  // of the bytes that follow
  };

  void copy_in(std::uint64_t at, std::span<const std::byte> from);
  void copy_out(std::uint64_t at, std::span<std::byte> to) const;
  [[nodiscard]] Head head_at(std::uint64_t at) const;

  alignas(128) std::atomic<std::uint64_t> written_;
  alignas(128) std::atomic<std::uint64_t> taken_;
  alignas(128) std::array<std::byte, kBytes> bytes_;
};

}  // namespace hora::shm
