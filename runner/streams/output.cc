// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::size_t kMostLine = 64 * 1024;
constexpr std::size_t kTail = 20;
constexpr std::array<int, 6> kColours{36, 33, 32, 35, 34, 31};
constexpr const char* kClearLine = "\r\033[K";

bool is_control(unsigned char c) { return c < ' ' || c == 0x7f; }

/// How many bytes a sequence that does things to a terminal ("\033[31m") has here; 0: there is none.
std::size_t escape_bytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const auto end = std::find_if(text.begin() + 2, text.end(), [](char c) { return c >= '@' && c <= '~'; });
  return static_cast<std::size_t>(end - text.begin()) + (end == text.end() ? 0 : 1);
}

/// How many columns a terminal needs for a text, where a character of UTF-8 takes one. A text that clears the
/// line needs all.
std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t skipped = escape_bytes(text);
    if (skipped > 0 && text[skipped - 1] == 'K') return std::string_view::npos;
    if (skipped == 0 && (static_cast<unsigned char>(text.front()) & 0xC0) != 0x80) ++count;
    text.remove_prefix(std::max<std::size_t>(skipped, 1));
  }
  return count;
}

/// "hora 07:10:18.846 rank 0 error: ...": what Hora says is known by other ways, and follows from the
/// program.
bool is_of_log(const std::string& line) {
  constexpr std::size_t kTime = 5;
  return line.starts_with("hora ") && line.size() > kTime + 8 && line[kTime + 2] == ':' &&
         line[kTime + 5] == ':';
}

/// Without spaces at its ends; a character of UTF-8 is not cut.
std::string quotable(std::string_view line, std::size_t most) {
  std::string words;
  while (!line.empty()) {
    const std::size_t skipped = escape_bytes(line);
    if (skipped == 0) words += is_control(static_cast<unsigned char>(line.front())) ? ' ' : line.front();
    line.remove_prefix(std::max<std::size_t>(skipped, 1));
  }
  words.erase(0, words.find_first_not_of(' '));
  if (words.size() > most) {
    while (most > 0 && (static_cast<unsigned char>(words[most]) & 0xC0) == 0x80) --most;
    words.resize(most);
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const std::function<void(Line)>& take) {
  for (const char c : bytes) {
    if (std::exchange(returned_, false)) {
      take({std::exchange(partial_, {}), c == '\n' ? "\r\n" : "\r"});
      if (c == '\n') continue;
    }
    if (c == '\n') {
      take({std::exchange(partial_, {}), "\n"});
    } else if (c == '\r') {
      returned_ = true;
    } else {
      partial_ += c;
      if (partial_.size() == kMostLine) take({std::exchange(partial_, {}), ""});
    }
  }
}

void LineSplitter::finish(const std::function<void(Line)>& take) {
  const bool returned = std::exchange(returned_, false);
  if (returned || !partial_.empty()) take({std::exchange(partial_, {}), returned ? "\r" : ""});
}

std::string Painter::label(int stream) const {
  const int rank = stream / 2;
  const std::string label = fmt::format("[{:>{}}]", rank, fmt::to_string(ranks_ - 1).size());
  const int colour = kColours.at(static_cast<std::size_t>(rank) % kColours.size());
  return colour_ ? fmt::format("\033[{}m{}\033[0m ", colour, label) : label + " ";
}

std::string Painter::paint(int stream, const Line& line) {
  if (!prefix_) return line.text + std::string(line.end);
  const bool bar = line.end == "\r";
  if (bar && line.text.empty()) return {};  // the cursor moves, and nothing else
  if (line.text.empty()) {                  // it ends what is there, if that is the stream's
    if (std::string out = finish(stream); !out.empty()) return out;
  }
  std::string out;
  if (bar && conversing_ != kNone) {
    bars_[stream] = line.text;
    return out;
  }
  if (terminal_) {
    out = clear_bar() + keep_uncovered(stream, line.text);
    if (bar) bars_[stream] = line.text;
  } else if (open_ != stream) {
    out = interrupt();
  }
  out += label(stream) + line.text;
  if (!bar) out += line.end.empty() ? "\n" : line.end;
  if (bar && !terminal_) out += line.end;
  open_ = bar ? stream : kNone;
  return out + typed_;
}

std::string Painter::finish(int stream) {
  if (conversing_ == stream) {
    conversing_ = kNone;
    typed_.clear();
    return "\n";
  }
  if (terminal_ && bars_.contains(stream)) return clear_bar() + keep_uncovered(stream, "") + typed_;
  return open_ == stream ? interrupt() : "";
}

std::string Painter::insert(std::string_view words) {
  std::string out = interrupt();
  out += words;
  return out + typed_;
}

std::string Painter::converse(int stream, std::string_view bytes) {
  constexpr std::size_t kMostTyped = 4096;
  const bool ended = bytes.ends_with('\n');
  if (!terminal_) {
    std::string out = open_ == stream ? "" : interrupt();
    open_ = ended ? kNone : stream;
    return out.append(bytes);
  }
  std::string out = conversing_ == stream ? "" : clear_bar();
  if (conversing_ != stream) typed_.clear();
  conversing_ = ended ? kNone : stream;
  typed_ += bytes;
  const auto overwritten = typed_.find_last_of("\r\n", typed_.size() - 2);
  if (overwritten != std::string::npos) typed_.erase(0, overwritten + 1);
  if (ended || typed_.size() > kMostTyped) typed_.clear();
  return out.append(bytes);
}

std::string Painter::interrupt() {
  if (terminal_) return clear_bar();
  return std::exchange(open_, kNone) == kNone ? "" : "\n";
}

/// A terminal's last line, if that shows a progress bar, or what a user types.
std::string Painter::clear_bar() {
  const bool bar = std::exchange(open_, kNone) != kNone;
  return bar || conversing_ != kNone ? kClearLine : "";
}

/// A line with the stream's progress bar, if it has one that the next piece does not cover.
std::string Painter::keep_uncovered(int stream, std::string_view next) {
  const auto bar = bars_.extract(stream);
  if (bar.empty() || columns(next) >= columns(bar.mapped())) return {};
  return label(stream) + bar.mapped() + "\n";
}

std::string Tail::last_line(std::size_t most) const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    std::string words = quotable(*line, most);
    if (!words.empty() && !is_of_log(words)) return words;
  }
  return {};
}

void Tail::add(const std::string& line) {
  ++count_;
  lines_.push_back(line);
  if (lines_.size() > kTail) lines_.pop_front();
}

}  // namespace hora::hrun
