// SPDX-License-Identifier: Apache-2.0
// The contract of all messengers is tested in test/conformance/messenger_suite.cc.
#include "core/backend/tcp/messages/tcp_messenger.h"

#include "test/support/correspondence.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

namespace hora::tcp {
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
  const PendingTransfer any = start_receive(*ranks[0], kAnySource, 9);
  const PendingTransfer announced = start_send(*ranks[1], 0, 1, counting(100'000, 0));
  while (!ranks[0]->probe({1, 1})) std::this_thread::yield();
  const PendingTransfer waiting = start_receive(*ranks[0], 1, 5);
  const PendingTransfer sent = start_send(*ranks[0], 1, 1, counting(100'000, 0));
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
  const PendingTransfer waiting = start_receive(*ranks[0], 1, 5);
  ranks[1].reset();
  ranks[0]->abort({Code::aborted, "rank 1 was killed"});
  EXPECT_EQ(waiting->outcome.wait().message, "rank 1 was killed");
}

TEST(TcpMessenger, ARankWithoutDescriptorsEndsWhatItWaitsForAndNamesTheLimitAndGoesOnWhenItHasSome) {
  auto configs = loopback_configs(2);
  auto worlds = connect_tcp_ranks(configs);
  configs[0].start_timeout = std::chrono::milliseconds(200);
  std::unique_ptr<Messenger> ranks[2];
  run_ranks(2, [&](int rank) {
    ranks[rank] = connect_tcp_messenger(worlds[rank], configs[rank], Clock::now() + std::chrono::seconds(60));
  });
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(0);  // the sender's socket
  ::close(next);
  const rlimit one_more{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &one_more);
  const PendingTransfer in_vain = start_receive(*ranks[0], 1, 5);
  const PendingTransfer from_self = start_receive(*ranks[0], 0, 5);
  const PendingTransfer sent = start_send(*ranks[1], 0, 5, {4});
  const Status status = in_vain->outcome.wait();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_EQ(
      status.message,
      "rank 0 could not accept connections of other ranks for 0.2 s: Too many open files (`ulimit -n` is " +
          std::to_string(next + 1) + "); raise the limit, or close files and sockets");
  EXPECT_FALSE(from_self->outcome.told());
  EXPECT_EQ(receive(*ranks[0], 1, 5), Numbers{4});
}

}  // namespace
}  // namespace hora::tcp
