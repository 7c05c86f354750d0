// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"
#include "core/watch/trace_file.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace hora {

/// Rank 0's timeline of all ranks, from the wish of a user's thread to the file.
///
/// Protocol. A user's thread makes the file and leaves a command; the engine announces it to all ranks; each
/// rank's engine begins or ends to trace when it hears that, and sends what it has seen. When the last part
/// of every rank is there the file is finished, and whoever waits in `await_end` goes on. One mutex guards
/// everything; only `await_end` waits, for the engine, which never waits for it. Thread-safe.
class Timeline {
 public:
  explicit Timeline(int ranks) : ranks_(ranks) {}

  /// Throws Error(invalid_argument) if there is one already, or the file cannot be written, and
  /// Error(aborted) when the job has ended.
  void start(const std::string& path, bool mark_cycles, const std::vector<Member>& members, int rank);
  /// Wishes for the end; the engine must be woken. False: there is no timeline.
  bool stop();
  /// Waits until the file has everything.
  void await_end();

  // Of the engine.
  TraceCommand take_command();
  void add(int rank, TracePart part);
  /// There will be no more: the job has ended.
  void finish();

 private:
  int ranks_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::optional<TraceFile> file_;
  TraceCommand command_ = TraceCommand::none;
  std::set<int> ended_;  // the ranks that have sent their last part
  bool job_ended_ = false;
};

}  // namespace hora
