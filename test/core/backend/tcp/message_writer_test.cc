// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/message_writer.h"

#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Bytes bytes_of(std::size_t count, int first) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(first++);
  return bytes;
}

TEST(MessageWriter, WritesChunksOneAfterTheOtherAndTellsOfEach) {
  const auto [here, there] = socket_pair(8192);
  std::vector<Bytes> elements;
  for (const std::size_t count : {100'000U, 0U, 3U, 70'000U}) elements.push_back(bytes_of(count, 7));
  MessageWriter writer;
  Bytes expected;
  std::vector<int> told;
  for (int i = 0; i < 40; ++i) {  // more than one call of sendmsg takes
    const Bytes& mine = elements[static_cast<std::size_t>(i) % elements.size()];
    const Bytes head = bytes_of(static_cast<std::size_t>(i % 3), i);
    expected.insert(expected.end(), head.begin(), head.end());
    expected.insert(expected.end(), mine.begin(), mine.end());
    writer.put({head, mine, [&told, i](const Status& status) {
                  EXPECT_TRUE(status.ok());
                  told.push_back(i);
                }});
  }
  Bytes received;
  Bytes piece(5000);
  while (received.size() < expected.size()) {
    Calls calls;
    writer.flush(here.fd(), calls);
    run(calls);
    const auto got = ::recv(there.fd(), piece.data(), piece.size(), 0);
    ASSERT_GT(got, 0);
    received.insert(received.end(), piece.begin(), piece.begin() + got);
  }
  EXPECT_EQ(received, expected);
  EXPECT_TRUE(writer.idle());
  std::vector<int> all(40);
  for (int i = 0; i < 40; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(told, all);
}

TEST(MessageWriter, KeepsWhatASocketThatHasGoneDoesNotTake) {
  auto [here, there] = socket_pair();
  there = Descriptor();
  MessageWriter writer;
  Status told;
  writer.put({bytes_of(10, 0), {}, [&](const Status& status) { told = status; }});
  Calls calls;
  writer.flush(here.fd(), calls);
  EXPECT_TRUE(calls.empty());
  EXPECT_TRUE(writer.idle()) << "there is no use in waiting for it";
  writer.fail({Code::aborted, "gone"}, calls);
  run(calls);
  EXPECT_EQ(told.message, "gone");
}

}  // namespace
}  // namespace hora
