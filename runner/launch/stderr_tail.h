// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/streams/source.h"

#include <poll.h>

#include <string>
#include <vector>

namespace hora::hrun {

/// The last kilobytes that a program has written to its stderr, to be quoted in a message. Nothing blocks.
class StderrTail {
 public:
  static constexpr std::size_t kMost = 4096;  ///< bytes

  explicit StderrTail(Descriptor pipe) : source_(std::move(pipe)) {}

  /// Adds the event that poll() has to wait for before the next `read`.
  void watch(std::vector<pollfd>& events) const;
  /// Reads the bytes that are there.
  void read();
  /// Reads and drops the text up to here.
  void clear();
  /// The lines that are not blank, separated by "; ". Control characters, which could change a terminal, are
  /// blanks.
  [[nodiscard]] std::string quoted() const;

 private:
  PipeSource source_;
  std::string text_;
};

}  // namespace hora::hrun
