// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <span>
#include <utility>

namespace hora {

/// A file descriptor that closes itself. Moves.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What poll() takes: -1 for ever, else at least 0.
[[nodiscard]] int milliseconds_until(TimePoint deadline);

/// Whether `events` (poll's) come true before the deadline.
bool await_events(int fd, short events, TimePoint deadline);

// Over a stream socket, blocking up to the deadline. They throw Error(timeout) at it, and Error(unavailable)
// when the other side closes or resets the connection.
void read_exactly(int fd, std::span<std::byte> bytes, TimePoint deadline);
void write_all(int fd, std::span<const std::byte> bytes, TimePoint deadline);

}  // namespace hora
