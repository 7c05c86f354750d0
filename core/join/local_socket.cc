// SPDX-License-Identifier: Apache-2.0
#include "core/join/local_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

[[noreturn]] void fail(const char* what) {
  const int error = errno;
  throw Error(Code::unavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

struct LocalAddress {
  explicit LocalAddress(const std::string& name) {
    if (name.size() + 1 > sizeof address.sun_path)
      throw Error(Code::internal, "the name of a local socket is too long");
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // the first byte stays zero: abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
};

/// Room for one descriptor beside a message.
struct alignas(cmsghdr) Ancillary {
  std::array<std::byte, CMSG_SPACE(sizeof(int))> bytes{};
};

msghdr message_with(iovec& content, Ancillary& ancillary) {
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = ancillary.bytes.size();
  return message;
}

void await_or_throw(const Descriptor& socket, short events, TimePoint deadline) {
  if (!await_events(socket.fd(), events, deadline)) {
    throw Error(Code::timeout, "the other side of the local socket did not answer in time");
  }
}

Descriptor open_local_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail("cannot open a local socket");
  return socket;
}

}  // namespace

Descriptor listen_local(const std::string& name) {
  Descriptor socket = open_local_socket();
  const LocalAddress address(name);
  if (::bind(socket.fd(), address.get(), address.length) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0) {
    fail("cannot listen at a local socket");
  }
  return socket;
}

Descriptor connect_local(const std::string& name) {
  Descriptor socket = open_local_socket();
  const LocalAddress address(name);
  if (::connect(socket.fd(), address.get(), address.length) != 0) fail("cannot connect to a local socket");
  return socket;
}

Descriptor accept_local(const Descriptor& listener, TimePoint deadline) {
  await_or_throw(listener, POLLIN, deadline);
  Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) fail("cannot accept a local connection");
  return socket;
}

unsigned user_of(const Descriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    fail("cannot tell who connects");
  return credentials.uid;
}

void send_descriptor(const Descriptor& socket, const Descriptor& file, TimePoint deadline) {
  std::byte byte{1};
  iovec content{&byte, 1};
  Ancillary ancillary;
  msghdr message = message_with(content, ancillary);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.fd();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  await_or_throw(socket, POLLOUT, deadline);
  if (::sendmsg(socket.fd(), &message, MSG_NOSIGNAL) != 1) fail("cannot pass a file to another rank");
}

Descriptor receive_descriptor(const Descriptor& socket, TimePoint deadline) {
  std::byte byte{};
  iovec content{&byte, 1};
  Ancillary ancillary;
  msghdr message = message_with(content, ancillary);
  await_or_throw(socket, POLLIN, deadline);
  const auto got = ::recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) fail("cannot receive a file from another rank");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (got == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    throw Error(Code::unavailable, "the other side of the local socket sent no file");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Descriptor(fd);
}

}  // namespace hora
