// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <sys/socket.h>

#include <array>
#include <system_error>

namespace hora {

/// Two connected sockets, non-blocking; each takes `bytes` before it is full, or what the system thinks.
inline std::array<Descriptor, 2> socket_pair(int bytes = 0) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) != 0)
    throw std::system_error(errno, std::generic_category());
  for (const int fd : fds) {
    if (bytes > 0) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

}  // namespace hora
