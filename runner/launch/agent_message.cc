// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent_message.h"

#include "core/base/bytes.h"
#include "runner/launch/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::size_t kHead = 5;
constexpr std::size_t kMostBody = 16 << 20;
constexpr std::size_t kMostText = 64 << 10;
constexpr std::uint64_t kMostPid = 1ULL << 31;
constexpr std::uint64_t kMostTime = 1ULL << 50;  // 35 years
constexpr std::uint64_t kExitCodes = 256;
constexpr std::uint64_t kSignals = 128;
constexpr std::uint64_t kStreams = 2;  // of each rank

int take_index(Reader& in, int ranks) {
  return static_cast<int>(in.below(static_cast<std::uint64_t>(ranks), "a rank of this host"));
}

/// A message to or from one rank: its index on the host, and then `content`.
Bytes with_index(int index, std::span<const std::byte> content) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(index)).raw(content);
  return out.take();
}

std::pair<int, std::span<const std::byte>> take_index_and_content(std::span<const std::byte> bytes,
                                                                  int ranks) {
  Reader in(bytes);
  const int index = take_index(in, ranks);
  return {index, in.raw(in.left())};
}

int take_stream(Reader& in, int ranks) {
  return static_cast<int>(in.below(kStreams * static_cast<std::uint64_t>(ranks), "an output of this host"));
}

/// The number of a rank or of a stream, and a number that belongs to it.
Bytes encode_pair(int of, std::uint64_t number) {
  return Writer().u64(static_cast<std::uint64_t>(of)).u64(number).take();
}

}  // namespace

Bytes encode(Word word, std::span<const std::byte> body) {
  Bytes bytes;
  bytes.reserve(kHead + body.size());
  bytes.push_back(static_cast<std::byte>(word));
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(body.size() >> shift));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

void AgentMessageReader::feed(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<std::string> AgentMessageReader::next_line() {
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
  const auto end = std::find(begin, bytes_.end(), std::byte{'\n'});
  if (end - begin > static_cast<std::ptrdiff_t>(kMostText))
    throw Error(Code::internal, "a line without end where a greeting was expected");
  if (end == bytes_.end()) return std::nullopt;
  std::string line;
  for (auto at = begin; at != end; ++at) line += static_cast<char>(*at);
  at_ += line.size() + 1;
  return line;
}

std::optional<AgentMessage> AgentMessageReader::next() {
  const std::span<const std::byte> rest = std::span(bytes_).subspan(at_);
  if (rest.size() < kHead) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::size_t>(rest[i + 1]) << (8 * i);
  const auto word = static_cast<int>(rest[0]);
  if (word >= kWords || length > kMostBody)
    throw Error(Code::internal, fmt::format("no message begins with {} and a length of {}", word, length));
  if (rest.size() - kHead < length) return std::nullopt;
  const auto body = rest.subspan(kHead, length);
  at_ += kHead + length;
  return AgentMessage{static_cast<Word>(word), Bytes(body.begin(), body.end())};
}

Bytes encode(const StartOne& start) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(start.index)).u64(start.member);
  put(out, start.placement);
  return out.take();
}

StartOne decode_start_one(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  StartOne start;
  start.index = take_index(in, ranks + 1);
  start.member = in.u64();
  start.placement = take_placement(in);
  in.finish();
  return start;
}

Bytes encode(const Started& started) {
  return encode_pair(started.index, static_cast<std::uint64_t>(started.pid));
}

Started decode_started(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  Started started;
  started.index = take_index(in, ranks);
  started.pid = static_cast<int>(in.below(kMostPid, "a process"));
  in.finish();
  return started;
}

Bytes encode(const Ended& ended) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(ended.index)).u64(static_cast<std::uint64_t>(ended.exit_code));
  out.string(ended.how).u64(static_cast<std::uint64_t>(ended.signal)).u64(ended.when);
  return out.take();
}

Ended decode_ended(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  Ended ended;
  ended.index = take_index(in, ranks);
  ended.exit_code = static_cast<int>(in.below(kExitCodes, "an exit code"));
  ended.how = in.string(kMostText);
  ended.signal = static_cast<int>(in.below(kSignals, "a signal"));
  ended.when = in.below(kMostTime, "a time");
  in.finish();
  return ended;
}

Bytes encode(const Stopped& stopped) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(stopped.index)).u64(static_cast<std::uint64_t>(stopped.signal));
  out.u64(stopped.when);
  return out.take();
}

Stopped decode_stopped(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  Stopped stopped;
  stopped.index = take_index(in, ranks);
  stopped.signal = static_cast<int>(in.below(kSignals, "a signal"));
  stopped.when = in.below(kMostTime, "a time");
  in.finish();
  return stopped;
}

Bytes encode(const RankReply& answer) { return with_index(answer.index, encode(answer.answer)); }

RankReply decode_rank_reply(std::span<const std::byte> bytes, int ranks) {
  const auto [index, content] = take_index_and_content(bytes, ranks);
  return {index, decode_reply(content)};
}

Bytes encode(const ToMember& message) { return with_index(message.index, elastic::encode(message.message)); }

ToMember decode_to_member(std::span<const std::byte> bytes, int ranks) {
  const auto [index, content] = take_index_and_content(bytes, ranks);
  return {index, elastic::decode_leader_message(content)};
}

Bytes encode(const FromMember& message) {
  return with_index(message.index, elastic::encode(message.message));
}

FromMember decode_from_member(std::span<const std::byte> bytes, int ranks) {
  const auto [index, content] = take_index_and_content(bytes, ranks);
  return {index, elastic::decode_member_message(content)};
}

Bytes encode_index(int index) { return encode_number(static_cast<std::uint64_t>(index)); }

int decode_index(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  const int index = take_index(in, ranks);
  in.finish();
  return index;
}

Bytes encode(const OutputPiece& piece) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(piece.stream)).raw(bytes_of(piece.bytes));
  return out.take();
}

OutputPiece decode_piece(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  const int stream = take_stream(in, ranks);
  return {stream, text_of(in.raw(in.left()))};
}

Bytes encode(const Taken& taken) { return encode_pair(taken.stream, taken.count); }

Taken decode_taken(std::span<const std::byte> bytes, int ranks) {
  Reader in(bytes);
  Taken taken;
  taken.stream = take_stream(in, ranks);
  taken.count = in.below(kWindow + 1, "a number of bytes");
  in.finish();
  return taken;
}

std::size_t decode_window(std::span<const std::byte> bytes, std::size_t window) {
  Reader in(bytes);
  const std::size_t count = in.below(kWindow - window + 1, "a number of bytes");
  in.finish();
  return count;
}

Bytes encode(const Pong& pong) {
  Writer out;
  out.u64(pong.echo).u64(pong.own);
  return out.take();
}

Pong decode_pong(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Pong pong;
  pong.echo = in.u64();
  pong.own = in.below(kMostTime, "a time");
  in.finish();
  return pong;
}

Bytes encode(WindowSize size) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(size.rows)).u64(static_cast<std::uint64_t>(size.columns));
  return out.take();
}

WindowSize decode_window_size(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kMost = 1 << 16;
  Reader in(bytes);
  WindowSize size;
  size.rows = static_cast<int>(in.below(kMost, "rows of a terminal"));
  size.columns = static_cast<int>(in.below(kMost, "columns of a terminal"));
  in.finish();
  return size;
}

Bytes encode_number(std::uint64_t number) {
  Writer out;
  out.u64(number);
  return out.take();
}

std::uint64_t decode_number(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto number = in.u64();
  in.finish();
  return number;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t microseconds(TimePoint when) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(when.time_since_epoch()).count());
}

}  // namespace hora::hrun
