// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent_message.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

std::span<const std::byte> some(std::string_view text) { return bytes_of(text); }

TEST(AgentMessageReader, CutsWhatArrivesIntoNotesHoweverItArrives) {
  Bytes all = encode(Word::output, some("hello"));
  for (const std::byte byte : encode(Word::over, {})) all.push_back(byte);
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, all.size()}) {
    AgentMessageReader reader;
    std::vector<AgentMessage> messages;
    for (std::size_t at = 0; at < all.size(); at += step) {
      reader.feed(std::span(all).subspan(at, std::min(step, all.size() - at)));
      while (auto message = reader.next()) messages.push_back(*message);
    }
    ASSERT_EQ(messages.size(), 2u) << step;
    EXPECT_EQ(messages[0].word, Word::output);
    EXPECT_EQ(text_of(messages[0].body), "hello");
    EXPECT_EQ(messages[1].word, Word::over);
  }
}

TEST(AgentMessageReader, ReadsLinesBeforeNotes) {
  AgentMessageReader reader;
  reader.feed(some("welcome to b\nhora-ag"));
  EXPECT_EQ(reader.next_line(), "welcome to b");
  EXPECT_EQ(reader.next_line(), std::nullopt);
  Bytes rest(some("ent 1\n").begin(), some("ent 1\n").end());
  for (const std::byte byte : encode(Word::ping, {})) rest.push_back(byte);
  reader.feed(rest);
  EXPECT_EQ(reader.next_line(), "hora-agent 1");
  EXPECT_EQ(reader.next(), (AgentMessage{Word::ping, {}}));
  EXPECT_EQ(reader.next(), std::nullopt);
}

TEST(AgentMessageReader, RefusesWhatIsNoNoteAndLinesWithoutEnd) {
  AgentMessageReader words;
  words.feed(some("Last login: today"));
  EXPECT_THROW(static_cast<void>(words.next()), Error);
  AgentMessageReader line;
  line.feed(some(std::string(70'000, 'x')));
  EXPECT_THROW(static_cast<void>(line.next_line()), Error);
}

TEST(Notes, CarryWhatTheySayAndNothingOutOfRange) {
  const Started started = decode_started(encode(Started{1, 4711}), 2);
  EXPECT_EQ(started.index, 1);
  EXPECT_EQ(started.pid, 4711);
  EXPECT_THROW(static_cast<void>(decode_started(encode(Started{2, 4711}), 2)), Error);

  const Ended ended = decode_ended(encode(Ended{0, 137, "was killed", 9, 5}), 1);
  EXPECT_EQ(ended.exit_code, 137);
  EXPECT_EQ(ended.how, "was killed");
  EXPECT_EQ(ended.when, 5u);
  EXPECT_THROW(static_cast<void>(decode_ended(encode(Ended{0, 256, "", 0, 5}), 1)), Error);
  EXPECT_THROW(static_cast<void>(decode_ended(encode(Ended{0, 1, "", 0, ~0ULL}), 1)), Error);
  EXPECT_THROW(static_cast<void>(decode_ended(encode(Ended{0, 1, "", 128, 5}), 1)), Error);

  const Stopped stopped = decode_stopped(encode(Stopped{1, 19, 5}), 2);
  EXPECT_EQ(stopped.index, 1);
  EXPECT_EQ(stopped.signal, 19);
  EXPECT_EQ(stopped.when, 5u);
  EXPECT_THROW(static_cast<void>(decode_stopped(encode(Stopped{1, 128, 5}), 2)), Error);

  const elastic::LeaderMessage go{.kind = elastic::LeaderMessage::Kind::go, .generation = 7};
  EXPECT_EQ(decode_to_member(encode(ToMember{1, go}), 2).index, 1);
  EXPECT_EQ(decode_to_member(encode(ToMember{1, go}), 2).message, go);
  EXPECT_THROW(static_cast<void>(decode_to_member(encode(ToMember{2, go}), 2)), Error);
  const elastic::MemberMessage join{.kind = elastic::MemberMessage::Kind::join, .port = 4000};
  EXPECT_EQ(decode_from_member(encode(FromMember{0, join}), 1).message, join);
  EXPECT_THROW(static_cast<void>(decode_from_member(encode(FromMember{1, join}), 1)), Error);
  EXPECT_EQ(decode_index(encode_index(1), 2), 1);
  EXPECT_THROW(static_cast<void>(decode_index(encode_index(2), 2)), Error);

  const Bytes piece = encode(OutputPiece{3, "text"});
  EXPECT_EQ(decode_piece(piece, 2).stream, 3);
  EXPECT_EQ(decode_piece(piece, 2).bytes, "text");
  EXPECT_THROW(static_cast<void>(decode_piece(piece, 1)), Error);

  EXPECT_EQ(decode_taken(encode(Taken{1, kWindow}), 1).count, kWindow);
  EXPECT_THROW(static_cast<void>(decode_taken(encode(Taken{1, kWindow + 1}), 1)), Error);
  EXPECT_EQ(decode_window(encode_number(5), kWindow - 5), 5u);
  EXPECT_THROW(static_cast<void>(decode_window(encode_number(6), kWindow - 5)), Error);

  EXPECT_EQ(decode_window_size(encode(WindowSize{30, 100})), (WindowSize{30, 100}));
  EXPECT_THROW(static_cast<void>(decode_window_size(encode(WindowSize{30, 1 << 16}))), Error);

  EXPECT_EQ(decode_pong(encode(Pong{1, 2})).own, 2u);
  EXPECT_THROW(static_cast<void>(decode_number(encode(Pong{1, 2}))), Error) << "more than a number";
}

}  // namespace
}  // namespace hora::hrun
