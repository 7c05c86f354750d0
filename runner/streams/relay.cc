// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/relay.h"

#include "runner/launch/environment.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::chrono::milliseconds kLineComesWithin{50};  // else what has come of it is a question

/// As after 2>&1.
bool same_file(int one, int other) {
  struct stat first{};
  struct stat second{};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Relay::Relay(const Options& options) : options_(options) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (fd == STDERR_FILENO && same_file(STDOUT_FILENO, STDERR_FILENO)) break;
    const bool terminal = ::isatty(fd) == 1;
    const bool colour = terminal && !variable("NO_COLOR");
    targets_.push_back(std::make_unique<Target>(
        Target{Painter(options.ranks, options.prefix, terminal, colour), OutputSink(fd)}));
  }
  if (!options.output_directory.empty()) make_directory(options.output_directory);
}

void Relay::add(std::shared_ptr<OutputSource> output, std::shared_ptr<OutputSource> errors, bool converses) {
  Stream& first = open(*targets_.front(), std::move(output), "stdout");
  Stream& second = open(*targets_.back(), std::move(errors), "stderr");
  if (!converses) return;
  Conversation& conversation = *conversations_.emplace_back(std::make_unique<Conversation>());
  conversation.output = &first;
  conversation.errors = &second;
  first.conversation = &conversation;
  if (first.target == second.target) second.conversation = &conversation;
}

void Relay::replace(int rank, std::shared_ptr<OutputSource> output, std::shared_ptr<OutputSource> errors) {
  streams_[static_cast<std::size_t>(rank) * 2]->source.add(std::move(output));
  streams_[static_cast<std::size_t>(rank) * 2 + 1]->source.add(std::move(errors));
}

Relay::Stream& Relay::open(Target& target, std::shared_ptr<OutputSource> source, const char* name) {
  const auto number = static_cast<int>(streams_.size());
  Stream& stream =
      *streams_.emplace_back(std::make_unique<Stream>(number, &target, SourceQueue(std::move(source))));
  const std::string& directory = options_.output_directory;
  if (!directory.empty()) stream.file = RankFile(fmt::format("{}/rank.{}", directory, number / 2), name);
  return stream;
}

void Relay::add_errors(int rank, std::string_view text, bool shown) {
  Stream& stream = *streams_[static_cast<std::size_t>(rank) * 2 + 1];
  stream.lines.finish([&](const Line& line) { take(stream, line); });
  keep(stream, text);
  LineSplitter lines;
  const auto pass = [&](const Line& line) {
    if (shown) return take(stream, line);
    stream.tail.add(line.text);
  };
  lines.feed(text, pass);
  lines.finish(pass);
  flush(*stream.target);
}

void Relay::print(std::string_view text) {
  Target& target = *targets_.back();
  target.sink.add(target.painter.insert(text));
  flush(target);
}

/// False if its reader is gone. Anything else that is wrong with it is said once; ranks go on.
bool Relay::flush(Target& target) {
  const std::size_t waiting = target.sink.size();
  const int trouble = target.sink.flush();
  if (trouble == 0) written_ += waiting - target.sink.size();
  if (trouble != 0 && trouble != EPIPE && !std::exchange(target.failed, true))
    print(fmt::format("hrun: cannot write its output any further: {}\n", std::strerror(trouble)));
  return trouble != EPIPE;
}

void Relay::watch(std::vector<pollfd>& events) const {
  for (const auto& target : targets_) {
    if (!target->sink.empty()) events.push_back({target->sink.fd(), POLLOUT, 0});
  }
  for (const auto& stream : streams_) {
    const int fd = stream->source->fd();
    if (fd >= 0 && !stream->source.done() && !stream->target->sink.full()) events.push_back({fd, POLLIN, 0});
  }
}

bool Relay::ready() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) {
    return !stream->source.done() && !stream->target->sink.full() &&
           (stream->source->ready() || stream->source->ended());
  });
}

TimePoint Relay::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& stream : streams_) next = std::min(next, stream->begins_at);
  return next;
}

bool Relay::move() {
  for (const auto& stream : streams_) {
    if (!stream->source.done() && !stream->target->sink.full()) read(*stream);
    if (Clock::now() >= stream->begins_at) begin_conversation(*stream);
  }
  bool all_read = true;
  for (const auto& target : targets_) all_read = flush(*target) && all_read;
  return all_read;
}

/// A bounded piece at a time, so that a rank that writes without end does not keep the others waiting.
/// Whether there was something.
bool Relay::read(Stream& stream) {
  std::array<char, 64 * 1024> buffer;
  const std::size_t count = stream.source->ended() ? 0 : stream.source->read(buffer);
  if (count > 0) {
    const std::string_view bytes(buffer.data(), count);
    feed(stream, bytes);
    keep(stream, bytes);
  }
  const bool ended = stream.source->ended();
  if (ended) finish(stream);
  return ended || count > 0;
}

void Relay::feed(Stream& stream, std::string_view bytes) {
  const Conversation* conversation = stream.conversation;
  if (conversation != nullptr && conversation->open && (stream.begun || &stream == conversation->output)) {
    const auto end = bytes.find('\n');
    const std::size_t shown = end == std::string_view::npos ? bytes.size() : end + 1;
    converse(stream, bytes.substr(0, shown));
    bytes.remove_prefix(shown);
  }
  if (bytes.empty()) return;
  stream.lines.feed(bytes, [&](const Line& line) { take(stream, line); });
  if (conversation == nullptr) return;
  stream.begins_at = stream.lines.partial().empty() ? TimePoint::max() : Clock::now() + kLineComesWithin;
}

/// The line that has begun is not ended soon.
void Relay::begin_conversation(Stream& stream) {
  Conversation& conversation = *stream.conversation;
  add(*stream.target, stream.target->painter.converse(conversation.output->number, stream.lines.partial()));
  conversation.open = stream.begun = true;
  stream.begins_at = TimePoint::max();
}

/// Bytes that are shown as they are, at most one of them an end of line, the last. Each line counts whole.
void Relay::converse(Stream& stream, std::string_view bytes) {
  Conversation& conversation = *stream.conversation;
  add(*stream.target, stream.target->painter.converse(conversation.output->number, bytes));
  stream.begun = true;
  stream.lines.feed(bytes, [&](const Line& line) {
    if (line.end != "\r") stream.tail.add(line.text);
  });
  if (bytes.ends_with('\n')) end_conversation(conversation);
}

void Relay::end_conversation(Conversation& conversation) {
  conversation.open = false;
  for (Stream* each : {conversation.output, conversation.errors}) end_begun(*each);
}

/// The line of which some is shown counts as it is.
void Relay::end_begun(Stream& stream) {
  if (std::exchange(stream.begun, false))
    stream.lines.finish([&](const Line& line) { stream.tail.add(line.text); });
}

void Relay::keep(Stream& stream, std::string_view bytes) {
  const std::string trouble = stream.file.write(bytes);
  if (!trouble.empty()) print(fmt::format("hrun: {}\n", trouble));
}

/// The end of stdout ends a conversation; that of stderr does not, as what is typed may still come.
void Relay::finish(Stream& stream) {
  stream.begins_at = TimePoint::max();
  Conversation* conversation = stream.conversation;
  if (conversation != nullptr && conversation->open && &stream == conversation->output)
    end_conversation(*conversation);
  end_begun(stream);
  stream.lines.finish([&](const Line& line) {
    take(stream, line);
    if (line.end == "\r") stream.tail.add(line.text);  // nothing overwrites it any more
  });
  add(*stream.target, stream.target->painter.finish(stream.number));
  stream.source.move_on();
}

void Relay::ranks_have_ended() {
  if (std::exchange(ranks_have_ended_, true)) return;
  for (const auto& stream : streams_) {
    stream->source.expect_no_more();
    while (!stream->source.done() && stream->source->ended()) finish(*stream);
  }
}

void Relay::take(Stream& stream, const Line& line) {
  add(*stream.target, stream.target->painter.paint(stream.number, line));
  if (line.end != "\r") stream.tail.add(line.text);
}

void Relay::add(Target& target, std::string_view bytes) {
  if (!target.failed) target.sink.add(bytes);
  if (target.abandoned) abandoned_ += bytes.size();
}

bool Relay::held_up() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const auto& target) { return !target->abandoned && !target->sink.empty(); });
}

void Relay::abandon() {
  ranks_have_ended();
  for (const auto& target : targets_) {
    if (target->sink.empty()) continue;
    target->failed = target->abandoned = true;
    abandoned_ += target->sink.discard();
  }
  for (const auto& stream : streams_) {
    while (!stream->source.done() && stream->target->abandoned && read(*stream)) {
    }
  }
}

bool Relay::errors_read() const {
  return std::none_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return !stream->source.done() && stream->target == targets_.back().get();
  });
}

bool Relay::done() const {
  return !held_up() && std::all_of(streams_.begin(), streams_.end(),
                                   [](const auto& stream) { return stream->source.done(); });
}

bool Relay::incomplete() const {
  return std::any_of(targets_.begin(), targets_.end(), [](const auto& target) { return target->failed; });
}

const Tail& Relay::output(int rank) const { return streams_[static_cast<std::size_t>(rank) * 2]->tail; }

const Tail& Relay::errors(int rank) const { return streams_[static_cast<std::size_t>(rank) * 2 + 1]->tail; }

}  // namespace hora::hrun
