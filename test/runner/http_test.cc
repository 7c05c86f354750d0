// SPDX-License-Identifier: Apache-2.0
#include "runner/http.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(HttpRequest, IsReadOnceItIsWhole) {
  const std::string text = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_request(std::string_view(text).substr(0, length))) << length;
  EXPECT_EQ(parse_request(text), (HttpRequest{"GET", "/metrics"}));
  EXPECT_EQ(parse_request("GET / HTTP/1.0\n\n"), (HttpRequest{"GET", "/"}));
  EXPECT_EQ(parse_request(encode(HttpRequest{"POST", "/dump"})), (HttpRequest{"POST", "/dump"}));
}

TEST(HttpRequest, IsRefusedIfItIsNone) {
  for (const char* text :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET x HTTP/1.0\r\n\r\n", "GET / SMTP\r\n\r\n",
        "\x16\x03\x01 / HTTP/1.0\r\n\r\n", "GET  / HTTP/1.0\r\n\r\n"})
    EXPECT_THROW(parse_request(text), Error) << text;
  EXPECT_FALSE(parse_request(std::string(kMostRequestBytes, 'x')));
  EXPECT_THROW(parse_request(std::string(kMostRequestBytes + 1, 'x')), Error);
}

TEST(HttpResponse, IsReadWhereItIsWhole) {
  const HttpResponse response{503, "application/json", "{\"a\":\r\n\r\n1}"};
  const std::string text = encode(response);
  EXPECT_EQ(parse_response(text), response);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_response(std::string_view(text).substr(0, length)), Error) << length;
  EXPECT_THROW(parse_response(text + "x"), Error);
  EXPECT_THROW(parse_response("HTTP/1.0 OK\r\nContent-Length: 0\r\n\r\n"), Error);
}

}  // namespace
}  // namespace hora
