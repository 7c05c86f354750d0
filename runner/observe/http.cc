// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/http.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace hora::hrun {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    default: return "Service Unavailable";
  }
}

[[noreturn]] void refuse_request(const char* why) { throw Error(Code::invalid_argument, why); }

/// Up to the next space, which goes, too.
std::string_view take_word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

bool is_token(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// Of the lines behind the first one, up to the empty one. Two of them could mean two things.
std::string host_in(std::string_view lines) {
  std::optional<std::string> host;
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (trimmed(line).empty()) break;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || lower(trimmed(line.substr(0, colon))) != "host") continue;
    if (host) refuse_request("the request has two hosts");
    host = lower(trimmed(line.substr(colon + 1)));
  }
  return host.value_or("");
}

[[noreturn]] void refuse_response() {
  throw Error(Code::unavailable, "what came is no answer of hrun's, or not the whole of it");
}

/// The number behind `name` at the beginning of a line of the head.
std::size_t length_in(std::string_view head) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const auto at = head.find(kName);
  std::size_t length = 0;
  if (at == std::string_view::npos) refuse_response();
  head.remove_prefix(at + kName.size());
  if (std::from_chars(head.data(), head.data() + head.size(), length).ec != std::errc()) refuse_response();
  return length;
}

}  // namespace

std::optional<HttpRequest> parse_request(std::string_view text) {
  const bool long_one = text.size() > kMostRequestBytes;
  text = text.substr(0, kMostRequestBytes);
  const bool whole =
      text.find("\r\n\r\n") != std::string_view::npos || text.find("\n\n") != std::string_view::npos;
  if (!whole && long_one) refuse_request("the request is too long");
  if (!whole) return std::nullopt;
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto method = take_word(line);
  const auto target = take_word(line);
  if (!is_token(method) || !is_token(target) || !target.starts_with('/') || !line.starts_with("HTTP/1."))
    refuse_request("this is no request of HTTP/1");
  return HttpRequest{std::string(method), std::string(target.substr(0, target.find('?'))),
                     host_in(text.substr(text.find('\n') + 1))};
}

bool means_loopback(const HttpRequest& request) {
  std::string_view host = request.host;
  const auto colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  if (has_port && host.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
    host = host.substr(0, colon);
  return request.host.empty() || host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

std::string encode(const HttpRequest& request) {
  const std::string host = request.host.empty() ? "" : fmt::format("Host: {}\r\n", request.host);
  return fmt::format("{} {} HTTP/1.0\r\n{}\r\n", request.method, request.path, host);
}

std::string encode(const HttpResponse& response) {
  return fmt::format(
      "HTTP/1.0 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      response.status, reason_of(response.status), response.type, response.body.size(), response.body);
}

HttpResponse parse_response(std::string_view text) {
  const auto end = text.find("\r\n\r\n");
  std::string_view line = text.substr(0, text.find("\r\n"));
  HttpResponse response;
  if (end == std::string_view::npos || !take_word(line).starts_with("HTTP/1.")) refuse_response();
  const auto status = take_word(line);
  if (std::from_chars(status.data(), status.data() + status.size(), response.status).ec != std::errc())
    refuse_response();
  response.body = text.substr(end + 4);
  if (response.body.size() != length_in(text.substr(0, end))) refuse_response();
  constexpr std::string_view kType = "\r\nContent-Type: ";
  const auto type = text.substr(0, end).find(kType);
  if (type != std::string_view::npos) {
    const auto value = text.substr(type + kType.size());
    response.type = value.substr(0, value.find("\r\n"));
  }
  return response;
}

}  // namespace hora::hrun
