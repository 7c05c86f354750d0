// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/metrics_address.h"

#include "core/join/listener.h"
#include "runner/launch/process.h"
#include "runner/observe/job_socket.h"

#include <hora/status.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

namespace hora::hrun {
namespace {

constexpr int kScrapersOutside = 16;
constexpr std::string_view kUnix = "unix:";

[[noreturn]] void refuse_address(const std::string& text, const std::string& why) {
  throw Error(
      Code::invalid_argument,
      fmt::format("--metrics {}: {}; say unix:/path, or a port of this machine: 9400, 127.0.0.1:9400, "
                  "[::1]:9400",
                  text, why));
}

std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || trouble != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<std::string> loopback_named(std::string_view host) {
  if (host == "127.0.0.1" || host == "localhost") return "127.0.0.1";
  if (host == "[::1]") return "::1";
  return std::nullopt;
}

template <typename Address>
bool listen_at(int socket, const Address& address) {
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket, kScrapersOutside) == 0;
}

Descriptor new_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail("cannot make a socket for --metrics");
  return socket;
}

}  // namespace

MetricsAddress parse_metrics_address(const std::string& text) {
  if (text.starts_with(kUnix)) {
    const std::string path = text.substr(kUnix.size());
    if (!path.starts_with('/')) refuse_address(text, "a path begins with a slash");
    if (path.size() >= sizeof sockaddr_un::sun_path)
      refuse_address(text, "the path is too long for a socket");
    return {path};
  }
  const auto colon = text.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  const auto port = port_in(colon == std::string::npos ? text : text.substr(colon + 1));
  if (!port) refuse_address(text, "there is no port");
  const auto loopback = loopback_named(host);
  if (!loopback)
    refuse_address(text, fmt::format("{} may be reached from other machines, and whoever connects is served",
                                     host.empty() ? "this" : host));
  return {"", *loopback, *port};
}

MetricsSocket::MetricsSocket(const MetricsAddress& address) {
  if (address.path.empty()) {
    listen_on_loopback(address);
  } else {
    listen_at_path(address.path);
  }
}

MetricsSocket::~MetricsSocket() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void MetricsSocket::listen_at_path(const std::string& path) {
  listener_ = new_socket(AF_UNIX);
  struct stat found{};
  const bool is_socket = ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
  if (is_socket && !connect_to_job(path) && errno == ECONNREFUSED) ::unlink(path.c_str());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size() + 1);
  const mode_t former = ::umask(0177);
  const bool listens = listen_at(listener_.fd(), address);
  const int why = errno;
  ::umask(former);
  errno = why;
  if (!listens) fail(fmt::format("--metrics: cannot listen at {}", path));
  path_ = path;
  address_ = fmt::format("{}{}", kUnix, path);
}

void MetricsSocket::listen_on_loopback(const MetricsAddress& address) {
  const bool old = address.loopback == "127.0.0.1";
  listener_ = new_socket(old ? AF_INET : AF_INET6);
  const int yes = 1;
  ::setsockopt(listener_.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(address.port);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(address.port);
  six.sin6_addr = in6addr_loopback;
  const bool listens = old ? listen_at(listener_.fd(), four) : listen_at(listener_.fd(), six);
  const std::string host = old ? "127.0.0.1" : "[::1]";
  if (!listens) fail(fmt::format("--metrics: cannot listen at {}:{}", host, address.port));
  address_ = fmt::format("{}:{}", host, port_of(listener_));
}

}  // namespace hora::hrun
