// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/watch/trace.h"

#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hora {

/// A timeline of all ranks as a file in Chrome's trace format (a JSON array), which Perfetto
/// (ui.perfetto.dev) and chrome://tracing open: a process for each rank, in it a row for each tensor. It is
/// whole JSON whenever it was written to. Written by a thread of its own. Thread-safe.
///
/// Instants are microseconds since the file was made. Ranks of one host have one clock; other hosts' instants
/// are placed by their time of day.
class TraceFile {
 public:
  /// `rank`: the rank that writes it. Throws Error(invalid_argument) that names the path and the system's
  /// reason if it cannot be written.
  TraceFile(std::string path, std::vector<Member> members, int rank);
  /// Writes what it was given.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add(int rank, TracePart part);

 private:
  void run();
  void write(int rank, const TracePart& part);
  void write_operation(int rank, const Traced& traced, TimePoint origin);
  int row(int rank, const Traced& traced);
  void emit(const std::string& event);
  void flush();
  /// The time when the file was made, on that rank's clock.
  [[nodiscard]] TimePoint origin_of(int rank, const TracePart& part) const;

  std::string path_;
  std::vector<Member> members_;
  int rank_;
  TimePoint origin_;
  std::int64_t wall_;  // nanoseconds since 1970, at the origin

  // Of the thread alone.
  std::ofstream file_;
  std::map<std::pair<int, std::string>, int> rows_;  // by rank and name
  std::string events_;                               // not written yet
  bool first_ = true;
  bool complained_ = false;

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::pair<int, TracePart>> parts_;  // under the mutex
  bool ends_ = false;                            // under the mutex
  std::thread thread_;
};

}  // namespace hora
