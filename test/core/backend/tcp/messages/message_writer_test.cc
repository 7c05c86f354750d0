// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_writer.h"

#include "core/backend/tcp/messages/message_frame.h"
#include "test/core/backend/tcp/data/counted_bytes.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

TEST(MessageWriter, WritesChunksOneAfterTheOtherAndTellsOfEach) {
  auto [socket, there] = socket_pair(8192);
  DataSocket here(std::move(socket));
  std::vector<Bytes> elements;
  for (const std::size_t count : {100'000U, 0U, 3U, 70'000U}) elements.push_back(bytes_of(count, 7));
  auto [writes, same] = make_sessions();
  MessageWriter writer;
  std::vector<Bytes> heads;
  std::size_t length = 0;
  std::vector<int> told;
  for (int i = 0; i < 40; ++i) {                        // more than one call of sendmsg takes
    if (i == 10) writer.open(std::move(writes.sends));  // what is there already is sealed, too
    const Bytes& mine = elements[static_cast<std::size_t>(i) % elements.size()];
    heads.push_back(bytes_of(static_cast<std::size_t>(i % 3), i));
    length += kSealedLengthBytes + heads.back().size() + kSealBytes + mine.size();
    writer.put({heads.back(), mine, [&told, i](const Status& status) {
                  EXPECT_TRUE(status.ok());
                  told.push_back(i);
                }});
  }
  Bytes received;
  Bytes piece(5000);
  while (received.size() < length) {
    Calls calls;
    writer.flush(here, calls);
    run(calls);
    const auto got = ::recv(there.fd(), piece.data(), piece.size(), 0);
    ASSERT_GT(got, 0);
    received.insert(received.end(), piece.begin(), piece.begin() + got);
  }
  EXPECT_TRUE(writer.idle());
  std::span<const std::byte> rest(received);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::size_t head = open_message_length(same.receives, rest.first(kSealedLengthBytes));
    rest = rest.subspan(kSealedLengthBytes);
    EXPECT_EQ(open_message_head(same.receives, rest.first(head + kSealBytes)), heads[i]);
    rest = rest.subspan(head + kSealBytes);
    const Bytes& mine = elements[i % elements.size()];
    ASSERT_TRUE(std::equal(mine.begin(), mine.end(), rest.begin())) << i;
    rest = rest.subspan(mine.size());
  }
  EXPECT_TRUE(rest.empty());
  std::vector<int> all(40);
  for (int i = 0; i < 40; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(told, all);
}

TEST(MessageWriter, KeepsWhatASocketThatHasGoneDoesNotTake) {
  auto [socket, there] = socket_pair();
  DataSocket here(std::move(socket));
  there = Descriptor();
  MessageWriter writer;
  Status told;
  writer.put({bytes_of(10, 0), {}, [&](const Status& status) { told = status; }});
  Calls calls;
  writer.flush(here, calls);
  EXPECT_TRUE(calls.empty());
  EXPECT_TRUE(writer.idle()) << "there is no use in waiting for it";
  writer.fail({Code::aborted, "gone"}, calls);
  run(calls);
  EXPECT_EQ(told.message, "gone");
}

}  // namespace
}  // namespace hora::tcp
