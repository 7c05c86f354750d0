// SPDX-License-Identifier: Apache-2.0
#include "core/watch/account.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::milliseconds;

TEST(Account, TravelsAsBytes) {
  const Account account{41, "grad.6", milliseconds(1500), "    main in ./train"};
  EXPECT_EQ(decode_account(encode(account)), account);
  EXPECT_EQ(decode_account(encode(Account())), Account());
}

TEST(Account, HasAStackOfACertainLengthAtMost) {
  Account account;
  account.stack = std::string(10'000, 'x');
  EXPECT_EQ(decode_account(encode(account)).stack, std::string(4096, 'x'));
}

TEST(Account, IsRefusedAtEveryLengthButItsOwn) {
  Bytes bytes = encode(Account{41, "grad.6", milliseconds(1500), "main"});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_account(std::span(bytes).first(length)), Error) << length;
  bytes.push_back({});
  EXPECT_THROW(decode_account(bytes), Error);
}

TEST(Account, IsToldInASentence) {
  EXPECT_EQ(describe(Account()), "it has finished no operation");
  EXPECT_EQ(describe(Account{1, "a", milliseconds(500), ""}),
            "it finished 'a' 0.5 s ago, the 1st of its operations");
  EXPECT_EQ(describe(Account{12, "a", milliseconds(500), "    f"}),
            "it finished 'a' 0.5 s ago, the 12th of its operations, and its main thread is at:\n    f");
  EXPECT_EQ(describe(Account{10'022, "a", {}, ""}),
            "it finished 'a' 0.0 s ago, the 10022nd of its operations");
}

TEST(Delay, TravelsAsBytes) {
  const Delay delay{"evaluation", milliseconds(300'000)};
  EXPECT_EQ(decode_delay(encode(delay)), delay);
  EXPECT_EQ(decode_delay(encode(Delay())), Delay());
  const Bytes bytes = encode(delay);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_delay(std::span(bytes).first(length)), Error) << length;
}

}  // namespace
}  // namespace hora
