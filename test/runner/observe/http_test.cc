// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/http.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

TEST(HttpRequest, IsReadOnceItIsWhole) {
  const std::string text = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_request(std::string_view(text).substr(0, length))) << length;
  EXPECT_EQ(parse_request(text), (HttpRequest{"GET", "/metrics", "localhost"}));
  EXPECT_EQ(parse_request("GET / HTTP/1.0\n\n"), (HttpRequest{"GET", "/"}));
  for (const auto& request : {HttpRequest{"POST", "/dump"}, HttpRequest{"GET", "/metrics", "localhost:9400"}})
    EXPECT_EQ(parse_request(encode(request)), request) << request.host;
}

TEST(HttpRequest, MeansThisMachineByNoNameThatAnotherCanHave) {
  const auto means = [](const std::string& lines) {
    return means_loopback(*parse_request("GET /metrics HTTP/1.1\r\n" + lines + "\r\n"));
  };
  for (const char* host : {"localhost", "LocalHost:9400", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9400"})
    EXPECT_TRUE(means(std::string("Accept: */*\r\nHost: ") + host + "\r\n")) << host;
  EXPECT_TRUE(means("")) << "as in HTTP/1.0";
  for (const char* host :
       {"evil.example", "evil.example:9400", "localhost.evil.example", "127.0.0.1.evil.example",
        "localhost:9400:1", "localhost:x", "[::1", "[::2]", "::1", "10.0.0.1", "x@localhost", ":9400"})
    EXPECT_FALSE(means(std::string("host:\t") + host + "\r\n")) << host;
  EXPECT_FALSE(means("HOST : evil.example\r\n"));
  EXPECT_THROW(means("Host: localhost\r\nHost: evil.example\r\n"), Error);
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
}  // namespace hora::hrun
