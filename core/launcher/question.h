// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <span>

namespace hora {

// The questions of a launcher to its ranks while they run, for `hrun status` and `hrun dump`. There is a
// socket (SOCK_SEQPACKET) for each rank, on which each message is a question or an answer:
//
//   rank -> launcher   arrived, when it can answer; left, when it cannot any more
//   rank -> launcher   gave_up, when the job has failed for it; ends, before its process ends badly
//   launcher -> rank   a question
//   rank -> launcher   its reply: of its health, and from rank 0 of the job's, too, once its engine comes to
//                      it; or where it has written a dump
//   rank 0 -> launcher a rank has left the job though others wait for a tensor of its
//
// No side waits for the other one to read: a message that does not fit is not sent.

enum class QuestionKind : std::uint8_t { health, dump };
inline constexpr int kQuestionKinds = 2;

/// A value.
struct Question {
  std::uint64_t number = 0;  ///< from 1, never the same twice: an answer names it
  QuestionKind kind = QuestionKind::health;

  bool operator==(const Question&) const = default;
};

enum class ReplyKind : std::uint8_t {
  arrived,  ///< to no question: its number is 0
  left,     ///< likewise
  health,   ///< see core/launcher/health.h
  job,      ///< likewise
  dumped,   ///< the path, as text
  failed,   ///< a sentence
  gave_up,  ///< to no question: see core/launcher/end_report.h
  ends,     ///< likewise
  missed,   ///< to no question, from rank 0: the number of the rank that has left
};
inline constexpr int kReplyKinds = 9;

/// A value.
struct Reply {
  std::uint64_t number = 0;
  ReplyKind kind = ReplyKind::arrived;
  Bytes content{};

  bool operator==(const Reply&) const = default;
};

inline constexpr std::size_t kMostQuestionBytes = 64;
inline constexpr std::size_t kMostReplyBytes = 128 * 1024;

/// To bytes and back. Decoding throws Error(internal) for what no launcher or rank would send.
[[nodiscard]] Bytes encode(const Question& question);
[[nodiscard]] Question decode_question(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const Reply& answer);
[[nodiscard]] Reply decode_reply(std::span<const std::byte> bytes);
[[nodiscard]] Reply missed_rank(int rank);
/// The rank of such a reply, of a job of `size`. Throws Error(internal) if it has none.
[[nodiscard]] int decode_missed_rank(const Reply& reply, int size);

/// Sends one message. False: it is lost, as the socket takes none now, or its other end is closed.
bool say(int socket, std::span<const std::byte> message);

}  // namespace hora
