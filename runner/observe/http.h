// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hora::hrun {

// As much of HTTP/1.0 as hrun needs to be asked about its job: one request without a body on each connection,
// and one response, after which the connection ends.

/// A value.
struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< "/metrics", without what follows a '?'
  std::string host{};  ///< "localhost:9400": whom the sender means; empty: it does not say

  bool operator==(const HttpRequest&) const = default;
};

inline constexpr std::size_t kMostRequestBytes = 8 * 1024;

/// The request that begins `text`; nothing while it is not whole. Throws Error(invalid_argument) if it never
/// will be one, for its length among other things.
[[nodiscard]] std::optional<HttpRequest> parse_request(std::string_view text);
[[nodiscard]] std::string encode(const HttpRequest& request);

/// Whether the request means this machine by a name that no other machine can have: localhost, 127.0.0.1 or
/// [::1], with any port, or no name. A browser sends the name of the page that asks: a page of another
/// machine's can give its own name the address 127.0.0.1 (DNS rebinding), but cannot have one of these.
[[nodiscard]] bool means_loopback(const HttpRequest& request);

/// A value.
struct HttpResponse {
  int status = 200;
  std::string type;  ///< "application/json"
  std::string body;

  bool operator==(const HttpResponse&) const = default;
};

[[nodiscard]] std::string encode(const HttpResponse& response);
/// The whole of what came until the connection ended. Throws Error(unavailable) if it is none, or not whole.
[[nodiscard]] HttpResponse parse_response(std::string_view text);

}  // namespace hora::hrun
