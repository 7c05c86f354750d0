// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_reader.h"

#include "test/core/backend/tcp/data/counted_bytes.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

using Kind = MessageFrameKind;

Envelope of_bytes(std::size_t count) { return {4, 0, DType::uint8, {static_cast<std::int64_t>(count)}}; }

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Frames of all kinds that a sender sends, three times.
Bytes stream_of(Cipher& cipher, const Bytes& content) {
  Bytes stream;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kMostUnasked}) {
    append(stream, seal_message_head(cipher, encode({Kind::whole, 0, of_bytes(count)})));
    append(stream, bytes_of(count, 9));
    append(stream, seal_message_head(cipher, encode({Kind::announcement, count, of_bytes(content.size())})));
    append(stream, seal_message_head(cipher, encode({Kind::content, 3, {}})));
    append(stream, content);
    append(stream, seal_message_head(cipher, encode({Kind::content, 4, {}})));  // of no elements
  }
  return stream;
}

TEST(MessageReader, ReadsTheSameFramesHoweverTheyArrive) {
  const Bytes content = bytes_of(200'000, 1);
  for (const std::size_t step : {std::size_t{1} << 20, std::size_t{60'000}, std::size_t{997}}) {
    auto [socket, there] = socket_pair(1 << 20);
    DataSocket here(std::move(socket));
    auto [sender, receiver] = make_sessions();
    const Bytes stream = stream_of(sender.sends, content);
    Bytes output(content.size());
    MessageReader reader(4, [&](std::uint64_t number) {
      return number == 3 ? std::span(output) : std::span(output).first(0);
    });
    reader.open(std::move(receiver.receives));
    std::vector<Kind> kinds;
    for (std::size_t at = 0; at < stream.size();) {
      const auto sent = ::send(there.fd(), stream.data() + at, std::min(step, stream.size() - at), 0);
      at += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
      while (const auto received = reader.next(here)) {
        kinds.push_back(received->frame.kind);
        if (received->frame.kind == Kind::whole) {
          EXPECT_EQ(Bytes(received->elements.begin(), received->elements.end()),
                    bytes_of(static_cast<std::size_t>(received->frame.envelope.shape.front()), 9));
        } else if (received->frame.kind == Kind::content && received->frame.number == 3) {
          EXPECT_EQ(output, content);
          output.assign(output.size(), std::byte{0});
        }
      }
    }
    std::vector<Kind> expected;
    for (int i = 0; i < 3; ++i)
      expected.insert(expected.end(), {Kind::whole, Kind::announcement, Kind::content, Kind::content});
    EXPECT_EQ(kinds, expected);
  }
}

std::string failure(MessageReader reader, const Bytes& head, bool sealed = true) {
  auto [socket, there] = socket_pair();
  DataSocket here(std::move(socket));
  auto [sender, receiver] = make_sessions();
  reader.open(std::move(receiver.receives));
  const Bytes bytes = sealed ? seal_message_head(sender.sends, head) : head;
  EXPECT_EQ(::send(there.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  there = Descriptor();
  try {
    while (reader.next(here)) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MessageReader, RefusesWhatNoRankSends) {
  const auto of_sender = [] {
    return MessageReader(
        1, [](std::uint64_t) -> std::span<std::byte> { throw Error(Code::internal, "nobody has asked"); });
  };
  EXPECT_EQ(failure(MessageReader(1), encode({Kind::content, 1, {}})),
            "bad message: it comes from the wrong side");
  EXPECT_EQ(failure(of_sender(), encode({Kind::credit, 1, {}})), "bad message: it comes from the wrong side");
  EXPECT_EQ(failure(of_sender(), encode({Kind::content, 1, {}})), "nobody has asked");
  EXPECT_EQ(failure(of_sender(), Bytes(65'535)), "bad message: a head of 65535 bytes");
  EXPECT_NE(failure(of_sender(), Bytes(kSealedLengthBytes), false).find("forged"), std::string::npos);
  EXPECT_EQ(failure(of_sender(), encode({Kind::announcement, 1, of_bytes(3)})),
            "it was closed at the other end");
}

}  // namespace
}  // namespace hora::tcp
