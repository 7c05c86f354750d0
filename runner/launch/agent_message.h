// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/question.h"
#include "runner/streams/terminal.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hora::hrun {

// How hrun and the agent of a host talk, over the standard input and output of the program (ssh) that started
// the agent:
//
//   agent -> hrun   a line: kGreeting, its version, its path. A login shell's output before it is skipped.
//   both            messages: a word (1 byte), a length (4 bytes, little-endian), and as many bytes
//
//   hrun -> agent   plan, and then start, once all hosts are ready; interrupt,
//                   terminate, kill
//   agent -> hrun   ready or refused; started and ended for each rank, and stopped for those that
//                   were stopped or go on; over: nobody is left
//   agent -> hrun   output: some of a rank's stdout or stderr; nothing: its end
//   hrun -> agent   news: how a rank has ended, for those of the host (core/launcher/news.h)
//   hrun -> agent   question, for all ranks of the host; agent -> hrun  answer: of one of them
//   hrun -> agent   input: some of what ranks of the host read that have hrun's input; nothing: its end
//   hrun -> agent   window: the size of the user's terminal, where a rank of the host has one of its own
//   hrun -> agent   ping, every second; agent -> hrun  pong. A side that hears nothing for kSilence takes
//                   the other for lost: an agent then ends its ranks, and hrun ends the job.
//
// No side sends more of a stream than kWindow bytes that the other side has not told to be passed on
// (`taken`, `input_taken`). So a reader that stands still holds up its own stream, and nothing else.

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
};
inline constexpr int kWords = 21;

inline constexpr std::string_view kGreeting = "hora-agent";
inline constexpr std::size_t kWindow = 256 * 1024;
inline constexpr std::chrono::seconds kPingPause{1};
inline constexpr std::chrono::seconds kSilence{4};

struct AgentMessage {
  Word word = Word::ping;
  Bytes body;
  bool operator==(const AgentMessage&) const = default;
};

[[nodiscard]] Bytes encode(Word word, std::span<const std::byte> body);

/// Cuts what arrives into messages, however it arrives.
class AgentMessageReader {
 public:
  void feed(std::span<const std::byte> bytes);
  /// The next line of text, without its end: before the first message there may be some. Throws
  /// Error(internal) if there is more text than anybody needs.
  std::optional<std::string> next_line();
  /// The next whole message. Throws Error(internal) if it is none.
  std::optional<AgentMessage> next();

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

/// "The rank with this index on its host runs as this process."
struct Started {
  int index = 0;
  int pid = 0;
};
/// "... has ended."
struct Ended {
  int index = 0;
  int exit_code = 0;
  std::string how;
  int signal = 0;
  std::uint64_t when = 0;  ///< microseconds of the agent's clock
};
/// "... was stopped by this signal", or "goes on" if it is 0.
struct Stopped {
  int index = 0;
  int signal = 0;
  std::uint64_t when = 0;  ///< microseconds of the agent's clock
};
/// "... has answered."
struct RankReply {
  int index = 0;
  Reply answer;
};
/// A piece of one of the outputs of a host: its ranks' stdout have even numbers, their stderr odd ones.
struct OutputPiece {
  int stream = 0;
  std::string_view bytes;  ///< refers to the message; empty: the end
};
/// How much of an output has been passed on.
struct Taken {
  int stream = 0;
  std::size_t count = 0;
};
/// The answer to a ping: its time, and that of the one who answers, in microseconds.
struct Pong {
  std::uint64_t echo = 0;
  std::uint64_t own = 0;
};

[[nodiscard]] Bytes encode(const Started& started);
[[nodiscard]] Started decode_started(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Ended& ended);
[[nodiscard]] Ended decode_ended(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const Stopped& stopped);
[[nodiscard]] Stopped decode_stopped(std::span<const std::byte> bytes, int ranks);
[[nodiscard]] Bytes encode(const RankReply& answer);
[[nodiscard]] RankReply decode_rank_reply(std::span<const std::byte> bytes, int ranks);
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

/// A time as messages carry it.
[[nodiscard]] std::uint64_t microseconds(TimePoint when);

}  // namespace hora::hrun
