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

/// The input of ranks of this host, on its way from hrun into their pipes and terminals. All get the same.
/// Nothing blocks: `room` says how much more is taken, by what the slowest has not read. A rank that
/// reads no more gets no more, and nobody waits for it.
class RankInputs {
 public:
  /// Where a rank's input is written: the end of its pipe, or the master side of its terminal, not blocking.
  void add(Descriptor input);

  [[nodiscard]] std::size_t room() const;
  /// Bytes for all, at most `room`; none: there will be no more.
  void give(std::string_view bytes);
  void resize(WindowSize size);
  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// Passes on what can be.
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
