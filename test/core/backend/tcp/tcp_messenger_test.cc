// SPDX-License-Identifier: Apache-2.0
// What all messengers keep to is in test/conformance/messenger_suite.cc.
#include "core/backend/tcp/tcp_messenger.h"

#include "test/support/correspondence.h"
#include "test/support/tcp_ranks.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

std::string failure(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TcpMessenger, AConnectionThatBreaksEndsWhatDependsOnItIfNobodyExplainsIt) {
  auto ranks = connect_tcp_messengers(3);
  EXPECT_TRUE(send(*ranks[1], 0, 0, {1}).ok());
  EXPECT_TRUE(send(*ranks[0], 1, 0, {1}).ok());
  EXPECT_TRUE(send(*ranks[1], 0, 7, {2}).ok());
  EXPECT_EQ(receive(*ranks[0], 1, 0), Numbers{1});
  EXPECT_EQ(receive(*ranks[1], 0, 0), Numbers{1});
  const Mail any = start_receive(*ranks[0], kAnySource, 9);
  const Mail announced = start_send(*ranks[1], 0, 1, counting(100'000, 0));
  while (!ranks[0]->probe(1, 1)) std::this_thread::yield();
  const Mail waiting = start_receive(*ranks[0], 1, 5);
  const Mail sent = start_send(*ranks[0], 1, 1, counting(100'000, 0));
  ranks[1].reset();
  EXPECT_FALSE(announced->outcome.wait().ok());
  const std::string expected = "the connection for messages with rank 1 broke: ";
  for (const auto& mail : {waiting, sent}) {
    const Status status = mail->outcome.wait();
    EXPECT_EQ(status.code, Code::aborted);
    EXPECT_EQ(status.message.substr(0, expected.size()), expected);
  }
  // From then on at once; what has come whole is still there.
  EXPECT_EQ(failure([&] { receive(*ranks[0], 1, 5); }).substr(0, expected.size()), expected);
  EXPECT_EQ(failure([&] { receive(*ranks[0], 1, 1); }).substr(0, expected.size()), expected);
  EXPECT_FALSE(send(*ranks[0], 1, 0, {1}).ok());
  EXPECT_EQ(receive(*ranks[0], 1, 7), Numbers{2});
  EXPECT_TRUE(send(*ranks[2], 0, 9, {3}).ok());
  EXPECT_TRUE(any->outcome.wait().ok());
}

TEST(TcpMessenger, WhatExplainsABreakInTimeIsToldInstead) {
  auto ranks = connect_tcp_messengers(2);
  EXPECT_TRUE(send(*ranks[1], 0, 0, {1}).ok());
  EXPECT_EQ(receive(*ranks[0], 1, 0), Numbers{1});
  const Mail waiting = start_receive(*ranks[0], 1, 5);
  ranks[1].reset();
  ranks[0]->abort({Code::aborted, "rank 1 was killed"});
  EXPECT_EQ(waiting->outcome.wait().message, "rank 1 was killed");
}

}  // namespace
}  // namespace hora
