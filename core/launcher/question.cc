// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/question.h"

#include "core/base/bytes.h"

#include <sys/socket.h>

namespace hora {

Bytes encode(const Question& question) {
  Writer out;
  out.u64(question.number).u8(static_cast<std::uint8_t>(question.kind));
  return out.take();
}

Question decode_question(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Question question;
  question.number = in.u64();
  question.kind = in.enumerator<QuestionKind>(kQuestionKinds, "what is wanted");
  in.finish();
  return question;
}

Bytes encode(const Reply& answer) {
  Writer out;
  out.u64(answer.number).u8(static_cast<std::uint8_t>(answer.kind)).raw(answer.content);
  return out.take();
}

Reply decode_reply(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Reply answer;
  answer.number = in.u64();
  answer.kind = in.enumerator<ReplyKind>(kReplyKinds, "a kind of answer");
  const auto content = in.raw(in.left());
  answer.content.assign(content.begin(), content.end());
  return answer;
}

Reply missed_rank(int rank) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(rank));
  return {0, ReplyKind::missed, out.take()};
}

int decode_missed_rank(const Reply& reply, int size) {
  Reader in(reply.content);
  const auto rank = in.below(static_cast<std::uint64_t>(size), "a rank");
  in.finish();
  return static_cast<int>(rank);
}

bool say(int socket, std::span<const std::byte> message) {
  return ::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace hora
