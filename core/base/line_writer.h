// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>

namespace hora {

/// Writes lines to a descriptor and never lets the caller wait for their reader. Lines keep their order. A
/// thread of its own writes the lines that the descriptor does not take at once; it lives until it has
/// written all. Beyond `kMostBytes` lines are dropped, and a line says how many.
///
/// Threads: `mutex_` guards everything. It is never held in a call that may block: the caller asks first
/// whether the descriptor takes PIPE_BUF bytes, and writes no more than these at once. If other processes
/// fill a pipe between the two, the caller does wait for its reader.
class LineWriter {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;

  explicit LineWriter(int fd) : fd_(fd) {}
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  LineWriter(LineWriter&&) = delete;
  LineWriter& operator=(LineWriter&&) = delete;
  /// The thread must have ended.
  ~LineWriter() = default;

  /// Writes a line, which ends with its line feed. A line that cannot be written is lost: there is nobody to
  /// tell.
  void write(std::string line);
  /// Waits until all is written, but no longer than that.
  bool flush(std::chrono::milliseconds longest);

  // around fork(): the child has no such thread, and the lines that wait are the parent's
  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child);

 private:
  void push(std::string line);
  void write_what_fits();
  void start_thread();
  void write_all();
  std::string next_piece() const;
  void remove(std::size_t bytes);

  const int fd_;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::deque<std::string> waiting_;  // the first one perhaps in part
  std::size_t bytes_ = 0;            // in `waiting_`
  std::size_t dropped_ = 0;          // lines since one was taken
  bool has_thread_ = false;
};

}  // namespace hora
