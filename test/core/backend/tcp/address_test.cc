// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/address.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ParseAddress, TakesNamesAndBothKindsOfNumbers) {
  EXPECT_EQ(parse_address("node7:80").host, "node7");
  EXPECT_EQ(parse_address("127.0.0.1:80").port, "80");
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
  for (const char* wrong : {"", "node7", "node7:", ":80", "[::1]", "[::1:80"}) {
    EXPECT_THROW(static_cast<void>(parse_address(wrong)), Error) << wrong;
  }
}

TEST(Connect, FindsWhoListens) {
  const Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address address = local_address(listener.fd());
  EXPECT_TRUE(connect_to(address, Clock::now() + std::chrono::seconds(5)));
  EXPECT_EQ(address_towards(address), "127.0.0.1");
}

TEST(Connect, NamesTheAddressThatNobodyAnswersAt) {
  Address address;
  {
    const Descriptor listener = listen_at({"127.0.0.1", "0"});
    address = local_address(listener.fd());
  }
  try {
    static_cast<void>(connect_to(address, Clock::now()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + address.port + ": Connection refused"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace hora
