// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace hora::hrun {

/// hrun's own stdout or stderr, or another descriptor to write to. Its reader may stand still for as long as
/// it likes: bytes wait here until they can be written, and writing never blocks.
///
/// The description behind the descriptor belongs to other programs, too, so its flags stay as they are: a
/// pipe or a terminal is opened once more, without blocking. Where that is not allowed, a piece that fits
/// into any pipe that is ready (PIPE_BUF) is written only when poll() says so.
class OutputSink {
 public:
  /// Borrows the descriptor.
  explicit OutputSink(int fd);

  void add(std::string_view bytes) { pending_ += bytes; }
  /// Writes what can be written now. 0, or why nothing can be written any more (errno; EPIPE: the reader is
  /// gone); then what waited is thrown away.
  int flush();
  /// Throws away what waits. How many bytes that was.
  std::size_t discard();

  /// The descriptor that poll() is to wait on.
  [[nodiscard]] int fd() const { return own_ ? own_.fd() : fd_; }
  [[nodiscard]] bool empty() const { return pending_.empty(); }
  [[nodiscard]] std::size_t size() const { return pending_.size(); }
  /// So much waits that whoever can wait before adding more should.
  [[nodiscard]] bool full() const;

 private:
  int fd_;
  Descriptor own_;
  std::string pending_;
};

}  // namespace hora::hrun
