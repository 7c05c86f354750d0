// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hora {

// As much of HTTP/1.0 as hrun needs to be asked about its job: one request without a body on each connection,
// and one response, after which the connection ends.

/// A value.
struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< "/metrics", without what follows a '?'

  bool operator==(const HttpRequest&) const = default;
};

inline constexpr std::size_t kMostRequestBytes = 8 * 1024;

/// What begins `text`; nothing while it is not whole. Throws Error(invalid_argument) if it never will be one,
/// for its length among other things.
[[nodiscard]] std::optional<HttpRequest> parse_request(std::string_view text);
[[nodiscard]] std::string encode(const HttpRequest& request);

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

}  // namespace hora
