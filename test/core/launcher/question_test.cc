// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/question.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace hora {
namespace {

TEST(Question, AndReplyTravelAsBytes) {
  const Question question{7, QuestionKind::dump};
  EXPECT_EQ(decode_question(encode(question)), question);
  EXPECT_LE(encode(Question{~0ULL, QuestionKind::dump}).size(), kMostQuestionBytes);
  const Reply reply{7, ReplyKind::dumped, {std::byte{'x'}}};
  EXPECT_EQ(decode_reply(encode(reply)), reply);
  EXPECT_EQ(decode_reply(encode(Reply{0, ReplyKind::arrived})), (Reply{0, ReplyKind::arrived}));
}

TEST(Question, IsRefusedIfNobodyWouldAskIt) {
  Bytes question = encode(Question{7, QuestionKind::dump});
  question.back() = std::byte{kQuestionKinds};
  EXPECT_THROW(decode_question(question), Error);
  EXPECT_THROW(decode_question({}), Error);
  question = encode(Question{7, QuestionKind::dump});
  question.push_back(std::byte{0});
  EXPECT_THROW(decode_question(question), Error);
  Bytes reply = encode(Reply{7, ReplyKind::failed});
  reply.back() = std::byte{kReplyKinds};
  EXPECT_THROW(decode_reply(reply), Error);
}

TEST(Reply, NamesARankThatIsMissedIfThereIsOne) {
  EXPECT_EQ(decode_missed_rank(decode_reply(encode(missed_rank(3))), 4), 3);
  EXPECT_THROW(static_cast<void>(decode_missed_rank(missed_rank(4), 4)), Error);
  EXPECT_THROW(static_cast<void>(decode_missed_rank(Reply{0, ReplyKind::missed}, 4)), Error);
}

TEST(Say, WaitsForNobody) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Bytes message = encode(Question{1, QuestionKind::health});
  for (int i = 0; i < 10'000; ++i) say(ends[0], message);  // nobody reads
  ::close(ends[1]);
  say(ends[0], message);
  ::close(ends[0]);
}

}  // namespace
}  // namespace hora
