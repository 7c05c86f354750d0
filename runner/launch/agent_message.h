// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/message.h"
#include "core/launcher/question.h"
#include "runner/launch/placement.h"
#include "runner/streams/terminal.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hora::hrun {

// The protocol between hrun and its agent on another host. It runs over the standard input and output of the
// program (ssh) that has started the agent. First the agent sends a line: kGreeting, its version, its path.
// Lines before it are skipped, as login shells print some. Then both send messages: a word (1 byte), a length
// (4 bytes, little-endian), and a body of that many bytes.
//
//   word                 from    meaning
//   plan                 hrun    the ranks of the host
//   ready, refused       agent   the answer to it
//   start                hrun    start the ranks; sent when the agents of all hosts are ready
//   start_one            hrun    start a process in place of one that has ended, or as a rank of its own
//   started, ended       agent   of each process of a rank
//   stopped              agent   a rank was stopped by a signal, or goes on
//   over                 agent   all processes of the host have ended: how many were started until then
//   interrupt, terminate, kill
//                        hrun    end the ranks, in this way
//   kill_one             hrun    kill one of them
//   output               agent   bytes of a rank's stdout or stderr; without bytes: its end
//   taken                hrun    so many bytes of an output have been passed on
//   input                hrun    bytes for the ranks that read hrun's input; without bytes: its end
//   input_taken          agent   so many bytes of it have been passed on
//   window               hrun    the size of the user's terminal, for ranks that have a terminal
//   news                 hrun    how a rank of any host has ended (core/launcher/news.h)
//   question             hrun    to all ranks of the host (core/launcher/question.h)
//   answer               agent   the answer of one of them
//   leader_message       hrun    to one rank of an elastic job (core/elastic/message.h)
//   member_message       agent   of one of them
//   ping                 hrun    four times in the silence after which it takes the host for lost
//   pong                 agent   the answer to it
//
// An end that hears nothing for kSilence takes the other for lost: an agent then ends its ranks, and hrun
// ends the job, or goes on without the host if the job is elastic (RemoteHost::silence). Of a stream each end
// sends at most kWindow bytes that have not been reported as passed on. So a reader that stands still holds
// up its own stream, and nothing else.

enum class Word : std::uint8_t {
  plan,
  ready,
  refused,
  start,
  started,
  ended,
  stopped,
  over,
  output,
  taken,
  input,
  input_taken,
  terminate,
  kill,
  news,
  ping,
  pong,
  question,
  answer,
  interrupt,
  window,
  kill_one,
  leader_message,
  member_message,
  start_one,
};
inline constexpr int kWords = 25;

inline constexpr std::string_view kGreeting = "hora-agent";
inline constexpr std::size_t kWindow = 256 * 1024;
inline constexpr std::chrono::seconds kSilence{4};
inline constexpr int kPingsInSilence = 4;

struct AgentMessage {
  Word word = Word::ping;
  Bytes body;
  bool operator==(const AgentMessage&) const = default;
};

[[nodiscard]] Bytes encode(Word word, std::span<const std::byte> body);

/// Splits a byte stream into lines and messages.
class AgentMessageReader {
 public:
  /// Adds bytes that have arrived.
  void feed(std::span<const std::byte> bytes);
  /// The next line, without its line feed, if it is complete. Only before the first message. Throws
  /// Error(internal) if a line is too long.
  std::optional<std::string> next_line();
  /// The next message, if it is complete. Throws Error(internal) if the bytes are no message.
  std::optional<AgentMessage> next();

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

/// The content of `start_one`: a process for the rank with this index on its host. The index after the last
/// one adds a rank.
struct StartOne {
  int index = 0;
  elastic::MemberId member = 0;
  RankPlacement placement;
};
/// The content of `started`: the rank with this index on its host runs as this process.
struct Started {
  int index = 0;
  int pid = 0;
};
/// The content of `ended`.
struct Ended {
  int index = 0;
  int exit_code = 0;
  std::string how;
  int signal = 0;
  std::uint64_t when = 0;  ///< microseconds of the agent's clock
};
/// The content of `stopped`: the rank was stopped by this signal, or goes on if it is 0.
struct Stopped {
  int index = 0;
  int signal = 0;
  std::uint64_t when = 0;  ///< microseconds of the agent's clock
};
/// The content of `answer`.
struct RankReply {
  int index = 0;
  Reply answer;
};
/// The content of `leader_message`, and to which rank.
struct ToMember {
  int index = 0;
  elastic::LeaderMessage message;
};
/// The content of `member_message`, and from which rank.
struct FromMember {
  int index = 0;
  elastic::MemberMessage message;
};
/// The content of `output`. Stream 2 i is the stdout of the rank with index i on its host; 2 i + 1, its
/// stderr. The output of a process ends before that of the process that replaces it begins.
struct OutputPiece {
  int stream = 0;
  std::string_view bytes;  ///< refers to the message; empty: the end
};
/// The content of `taken`: how many bytes of an output have been passed on.
struct Taken {
  int stream = 0;
  std::size_t count = 0;
};
/// The content of `pong`: times in microseconds.
struct Pong {
  std::uint64_t echo = 0;  ///< of the ping, by hrun's clock
  std::uint64_t own = 0;   ///< of the answer, by the agent's clock
};

[[nodiscard]] Bytes encode(const StartOne& start);
[[nodiscard]] StartOne decode_start_one(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Started& started);
[[nodiscard]] Started decode_started(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Ended& ended);
[[nodiscard]] Ended decode_ended(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Stopped& stopped);
[[nodiscard]] Stopped decode_stopped(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const RankReply& answer);
[[nodiscard]] RankReply decode_rank_reply(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const ToMember& message);
[[nodiscard]] ToMember decode_to_member(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const FromMember& message);
[[nodiscard]] FromMember decode_from_member(std::span<const std::byte> bytes, int ranks);
/// The content of `kill_one`.
[[nodiscard]] Bytes encode_index(int index);
[[nodiscard]] int decode_index(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const OutputPiece& piece);
[[nodiscard]] OutputPiece decode_piece(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Taken& taken);
[[nodiscard]] Taken decode_taken(std::span<const std::byte> bytes, int ranks);
/// The number of bytes by which a window grows; it grows to kWindow at most.
[[nodiscard]] std::size_t decode_window(std::span<const std::byte> bytes, std::size_t window);
[[nodiscard]] Bytes encode(const Pong& pong);
[[nodiscard]] Pong decode_pong(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(WindowSize size);
[[nodiscard]] WindowSize decode_window_size(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode_number(std::uint64_t number);
[[nodiscard]] std::uint64_t decode_number(std::span<const std::byte> bytes);

/// Text as bytes, and back.
[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text);
[[nodiscard]] std::string_view text_of(std::span<const std::byte> bytes);

/// A time as messages carry it: by this machine's clock.
[[nodiscard]] std::uint64_t microseconds(TimePoint when);

}  // namespace hora::hrun
