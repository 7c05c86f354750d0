// SPDX-License-Identifier: Apache-2.0
#include "core/join/first_free_port.h"

#include "core/join/address.h"
#include "core/join/listener.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace hora {
namespace {

std::uint16_t port_in(const std::string& point) {
  const std::string text = parse_address(point).port;
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || stop != text.data() + text.size())
    throw Error(Code::invalid_argument, fmt::format("'{}' has no port from 0 to 65535", point));
  return port;
}

}  // namespace

Descriptor listen_at_first_free(const std::string& points) {
  std::string why;
  for (std::string_view rest = points; !rest.empty();) {
    const auto point = rest.substr(0, rest.find(','));
    Descriptor listener = listen_everywhere(port_in(std::string(point)));
    if (listener) return listener;
    why = std::strerror(errno);
    rest.remove_prefix(std::min(point.size() + 1, rest.size()));
  }
  throw Error(Code::unavailable, fmt::format("rank 0 can listen at no port of {}: {}", points, why));
}

}  // namespace hora
