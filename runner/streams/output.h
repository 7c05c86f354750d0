// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hora::hrun {

/// A piece of output that is printed as one. A value. The texts and ends of a stream, put together, are its
/// bytes.
struct Line {
  std::string text;  ///< without its end
  std::string_view
      end;  ///< "\n", "\r\n"; "\r": the next piece overwrites it; "": it is very long, or the last
};

/// Cuts a stream into lines, however it arrives. A line longer than a limit comes in several.
class LineSplitter {
 public:
  void feed(std::string_view bytes, const std::function<void(Line)>& take);
  /// The part of a line that has come so far; empty as well where it may have ended.
  [[nodiscard]] std::string partial() const { return returned_ ? "" : partial_; }
  /// Hands out the piece that is left without an end, when the stream ends.
  void finish(const std::function<void(Line)>& take);

 private:
  std::string partial_;
  bool returned_ = false;  // a carriage return came last: "\r\n" is one end, not two
};

/// How lines of many ranks share one terminal or file. Makes the bytes; writes nothing.
///
/// Without prefixes these are the bytes of the streams. With prefixes each piece has one, also a piece that
/// the next one overwrites (a progress bar). A file keeps all pieces: a piece of another stream begins a line
/// of its own. A terminal shows a progress bar in its last line, and keeps a state of it only if the next
/// piece of the stream is too short to cover it.
class Painter {
 public:
  Painter(int ranks, bool prefix, bool terminal, bool colour)
      : ranks_(ranks), prefix_(prefix), terminal_(terminal), colour_(colour) {}

  /// The bytes to write for a line of a stream. Streams have numbers: a rank's stdout twice that of the rank,
  /// its stderr one more.
  [[nodiscard]] std::string paint(int stream, const Line& line);
  /// The bytes to write at the end of a stream.
  [[nodiscard]] std::string finish(int stream);
  /// The bytes to write for words that are of no stream.
  [[nodiscard]] std::string insert(std::string_view words);
  /// The bytes to write for bytes of a stream whose rank reads what the user types: the bytes, without a
  /// label. Until one of them ends the line it stays the last one on a terminal: other lines come before it.
  [[nodiscard]] std::string converse(int stream, std::string_view bytes);

 private:
  [[nodiscard]] std::string interrupt();
  [[nodiscard]] std::string label(int stream) const;
  std::string clear_bar();
  std::string keep_uncovered(int stream, std::string_view next);

  static constexpr int kNone = -1;

  int ranks_;
  bool prefix_;
  bool terminal_;
  bool colour_;
  int open_ = kNone;                 // the stream whose piece is last, and has no end of line yet
  int conversing_ = kNone;           // on a terminal: the stream of the line at whose end the user types
  std::string typed_;                // what that line shows
  std::map<int, std::string> bars_;  // on a terminal: of each stream the state that its next piece overwrites
};

/// The lines of a stream: the last ones, and how many there were.
class Tail {
 public:
  void add(const std::string& line);
  [[nodiscard]] const std::deque<std::string>& lines() const { return lines_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The last of them that says something and is not of Hora's log, of `most` bytes at most, without what
  /// does things to a terminal; empty: there is none.
  [[nodiscard]] std::string last_line(std::size_t most) const;

 private:
  std::deque<std::string> lines_;
  std::uint64_t count_ = 0;
};

}  // namespace hora::hrun
