// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace hora {

/// An eventfd: makes a thread's poll() return. Thread-safe.
class EventFd {
 public:
  /// Throws Error(unavailable) if this process may open no more files.
  EventFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) {
      throw Error(Code::unavailable,
                  fmt::format("cannot open an eventfd: {}; see `ulimit -n`", std::strerror(errno)));
    }
  }
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
