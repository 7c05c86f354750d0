// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/reserved_port.h"

#include "runner/launch/process.h"

#include <arpa/inet.h>
#include <sys/socket.h>

namespace hora::hrun {

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof where;
  auto* any = reinterpret_cast<sockaddr*>(&where);
  if (::setsockopt(socket_.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket_.fd(), any, length) != 0 || ::getsockname(socket_.fd(), any, &length) != 0) {
    fail("cannot reserve a port");
  }
  number_ = ntohs(where.sin_port);
}

}  // namespace hora::hrun
