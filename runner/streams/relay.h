// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"
#include "runner/command_line/options.h"
#include "runner/streams/output.h"
#include "runner/streams/output_sink.h"
#include "runner/streams/rank_file.h"
#include "runner/streams/source.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// The ranks' outputs on their way to hrun's own, line by line, and to a file for each where the user wants
/// that. Nothing here blocks: while the reader of hrun's output stands still, what is under way is bounded,
/// the ranks' pipes fill up, and the ranks wait. After their end somebody decides for how long the reader is
/// waited for, and calls `abandon`.
class Relay {
 public:
  explicit Relay(const Options& options);

  /// Passes on the output of the next rank from here on. `converses`: what the rank writes without an end of
  /// line may be a question to the user, and is shown, without a label, before that end. Throws
  /// Error(unavailable) if its files cannot be written.
  void add(std::shared_ptr<OutputSource> output, std::shared_ptr<OutputSource> errors,
           bool converses = false);
  /// Another process writes as this rank from here on. The output of the former one comes before that.
  void replace(int rank, std::shared_ptr<OutputSource> output, std::shared_ptr<OutputSource> errors);
  /// A text of a rank for its stderr that came by another way, all its lines at once; into its file and among
  /// its last lines also where it is not to be shown.
  void add_errors(int rank, std::string_view text, bool shown);
  /// A word of hrun's own, on stderr.
  void print(std::string_view text);

  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// Whether something can be moved at once, without waiting; the end of an output, too.
  [[nodiscard]] bool ready() const;
  /// When `move` has to be called though nothing has come.
  [[nodiscard]] TimePoint next() const;
  /// Moves what is there. False if a reader of hrun's output is gone.
  bool move();

  /// The ranks have ended: what their pipes hold is all that is still to come.
  void ranks_have_ended();
  /// Whether everything that belongs on stderr has been read.
  [[nodiscard]] bool errors_read() const;
  /// Whether everything has been read, and written where it can be.
  [[nodiscard]] bool done() const;
  /// Whether something waits for a reader.
  [[nodiscard]] bool held_up() const;
  /// How many bytes readers have taken.
  [[nodiscard]] std::uint64_t written() const { return written_; }
  /// Waits no more for readers that stand still: throws away what waits for them, and what is still to come.
  /// The files of ranks get it all the same. Implies `ranks_have_ended`.
  void abandon();
  /// How many bytes were thrown away because of that.
  [[nodiscard]] std::uint64_t abandoned() const { return abandoned_; }
  /// Whether some of it could not be written, as on a full disk, and was thrown away.
  [[nodiscard]] bool incomplete() const;
  /// The lines that a rank has written to stdout and to stderr.
  [[nodiscard]] const Tail& output(int rank) const;
  [[nodiscard]] const Tail& errors(int rank) const;

 private:
  /// Where lines of many ranks meet.
  struct Target {
    Painter painter;
    OutputSink sink;
    bool failed = false;     ///< it cannot be written, and gets no more of what ranks write
    bool abandoned = false;  ///< it has failed, as its reader stands still
  };
  struct Stream;
  /// A line in which a rank asks and the user answers. The question comes from either output,
  /// the answer from stdout, where a terminal's echo is.
  struct Conversation {
    bool open = false;
    Stream* output = nullptr;
    Stream* errors = nullptr;
  };
  /// One output of one rank.
  struct Stream {
    Stream(int number_of_it, Target* where, SourceQueue from)
        : number(number_of_it), target(where), source(std::move(from)) {}
    int number;  ///< see Painter
    Target* target;
    SourceQueue source;
    LineSplitter lines;
    Conversation* conversation = nullptr;    ///< of its rank and the user, if there may be one
    bool begun = false;                      ///< some of its line is shown, which is part of that
    TimePoint begins_at = TimePoint::max();  ///< when the line that has come in part begins one
    RankFile file;
    Tail tail;
  };

  Stream& open(Target& target, std::shared_ptr<OutputSource> source, const char* name);
  bool read(Stream& stream);
  void feed(Stream& stream, std::string_view bytes);
  void converse(Stream& stream, std::string_view bytes);
  void begin_conversation(Stream& stream);
  static void end_conversation(Conversation& conversation);
  static void end_begun(Stream& stream);
  void keep(Stream& stream, std::string_view bytes);
  void finish(Stream& stream);
  void take(Stream& stream, const Line& line);
  void add(Target& target, std::string_view bytes);
  bool flush(Target& target);

  const Options& options_;
  std::vector<std::unique_ptr<Target>> targets_;  // one, where stdout and stderr are the same
  std::vector<std::unique_ptr<Stream>> streams_;  // of each rank first its stdout, then its stderr
  std::vector<std::unique_ptr<Conversation>> conversations_;
  bool ranks_have_ended_ = false;
  std::uint64_t written_ = 0;
  std::uint64_t abandoned_ = 0;
};

}  // namespace hora::hrun
