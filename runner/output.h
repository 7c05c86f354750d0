// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hora {

/// A piece of output that is printed as one: a line, or a part that a carriage return will overwrite. A
/// value.
struct Line {
  std::string text;          ///< without its end
  bool overwritten = false;  ///< ended by a carriage return: a progress bar
};

/// Cuts a stream into lines, however it arrives. A line longer than a limit comes in several.
class LineSplitter {
 public:
  void feed(std::string_view bytes, const std::function<void(Line)>& take);
  /// What is left without an end, when the stream ends.
  void finish(const std::function<void(Line)>& take);

 private:
  std::string partial_;
  bool returned_ = false;  // a carriage return came last: "\r\n" is one end, not two
};

/// How lines of many ranks share one terminal or file. Makes the bytes; writes nothing.
class Painter {
 public:
  Painter(int ranks, bool prefix, bool terminal, bool colour)
      : ranks_(ranks), prefix_(prefix), terminal_(terminal), colour_(colour) {}

  /// What to write for a line of a rank.
  [[nodiscard]] std::string paint(int rank, const Line& line);

 private:
  int ranks_;
  bool prefix_;
  bool terminal_;
  bool colour_;
  bool bar_ = false;  // the terminal's last line is one that will be overwritten
};

/// The last lines of a stream.
class Tail {
 public:
  void add(const std::string& line);
  [[nodiscard]] const std::deque<std::string>& lines() const { return lines_; }
  /// The last of them that says something and is not of Hora's log, of `most` bytes at most, without what
  /// does things to a terminal; empty: there is none.
  [[nodiscard]] std::string last_words(std::size_t most) const;

 private:
  std::deque<std::string> lines_;
};

}  // namespace hora
