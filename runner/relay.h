// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/options.h"
#include "runner/outlet.h"
#include "runner/output.h"
#include "runner/process.h"

#include <array>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

struct pollfd;

namespace hora {

/// The ranks' outputs on their way to hrun's own, line by line, and to a file for each where the user wants
/// that. Nothing here blocks: while the reader of hrun's output stands still, what is under way is bounded,
/// the ranks' pipes fill up, and the ranks wait.
class Relay {
 public:
  explicit Relay(const Options& options);

  /// Takes over the output of the next rank. Throws Error(unavailable) if its files cannot be written.
  void add(Process& process);
  /// A word of hrun's own, on stderr.
  void print(std::string_view text);

  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// Moves what is there. False if a reader of hrun's output is gone.
  bool move();

  /// The ranks have ended: what their pipes hold now is all that is still to come. Somebody who left his
  /// group may hold one open, and even go on writing; that is no reason to wait.
  void ranks_have_ended();
  /// Whether everything that belongs on stderr has been read.
  [[nodiscard]] bool errors_read() const;
  /// Whether everything has been read and written.
  [[nodiscard]] bool done() const;
  /// The last lines that a rank wrote to stderr.
  [[nodiscard]] const std::deque<std::string>& last_errors(int rank) const;

 private:
  /// Where lines of many ranks meet.
  struct Target {
    Painter painter;
    Outlet outlet;
  };
  /// One output of one rank.
  struct Stream {
    int rank;
    Target* target;
    Descriptor pipe;
    std::size_t left;  ///< bytes until its end, once that is known
    LineSplitter lines;
    std::string path;  ///< of its file, if it has one
    std::ofstream file;
    Tail tail;
  };

  void open(int rank, Target& target, Descriptor pipe, const char* name);
  void read(Stream& stream);
  void keep(Stream& stream, std::string_view bytes);
  void finish(Stream& stream);
  void take(Stream& stream, const Line& line);

  const Options& options_;
  std::vector<std::unique_ptr<Target>> targets_;  // one, where stdout and stderr are the same
  std::vector<std::unique_ptr<Stream>> streams_;  // of each rank first its stdout, then its stderr
};

}  // namespace hora
