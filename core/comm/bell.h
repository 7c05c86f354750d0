// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/socket_io.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace hora {

/// An eventfd: makes a thread's poll() return. Thread-safe.
class Bell {
 public:
  Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_.fd(), &one, sizeof one);
  }
  void silence() const {
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto drained = ::read(fd_.fd(), &rings, sizeof rings);
  }
  [[nodiscard]] pollfd event() const { return {fd_.fd(), POLLIN, 0}; }

 private:
  Descriptor fd_;
};

}  // namespace hora
