// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/streams/output_sink.h"
#include "runner/streams/terminal.h"

#include <cstddef>
#include <list>
#include <string_view>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// Writes hrun's input to the standard inputs of ranks of this host, the same bytes to each. Nothing blocks:
/// bytes that a rank has not read wait here, and `room` limits them by the slowest rank. A rank that has
/// closed its input is dropped, and holds up no other.
class RankInputs {
 public:
  /// Adds a rank. `input`: the write end of its pipe, or the master side of its terminal; non-blocking.
  void add(Descriptor input);

  /// How many bytes `give` takes now; 0 also if no rank reads any more.
  [[nodiscard]] std::size_t room() const;
  /// Takes bytes for all ranks, at most `room`. None means the end of the input: each rank sees the end of
  /// the file when it has read the rest.
  void give(std::string_view bytes);
  /// Tells the ranks that have a terminal the size of its window.
  void resize(WindowSize size);
  /// Adds the events that poll() has to wait for before the next `move`.
  void watch(std::vector<pollfd>& events) const;
  /// Writes as much as can be written now.
  void move();

 private:
  struct Reader {
    Descriptor input;
    bool terminal;
    OutputSink sink;
    bool ending = false;
  };
  std::list<Reader> readers_;
};

}  // namespace hora::hrun
