// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <string>
#include <vector>

namespace hora {

/// The outcome of a program that has ended: its exit code (128 + signal if killed), and what it wrote.
struct Outcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
  double seconds = 0;
};

/// hrun, started and not yet ended. Ends it (KILL) if nobody waited for it, and a job that stands still.
class Launched {
 public:
  /// `ignored`: signals that hrun is started with as ignored; `closed`: descriptors that it is started
  /// without; `one_pipe`: its stderr is its stdout.
  explicit Launched(const std::vector<std::string>& arguments, const std::vector<int>& ignored = {},
                    const std::vector<int>& closed = {}, bool one_pipe = false);
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  void signal(int number) const;
  /// Reads until the output has this text; false if it ends before.
  bool await_output(const std::string& text);
  bool await_errors(const std::string& text);
  /// Reads until so many bytes of output have come; false if it ends before.
  bool await_more_output(std::size_t bytes);
  /// The part of stderr that has been read so far.
  [[nodiscard]] const std::string& errors() const { return outcome_.errors; }
  /// Reads no more: a process that writes to stdout finds no reader.
  void stop_reading();
  /// Reads nothing until hrun has filled the pipe that is its stdout.
  void await_full_output() const;
  Outcome wait();
  /// Waits for the end without reading anything before.
  Outcome wait_before_reading();
  /// Stops hrun, and waits until it stands still; SIGCONT lets it go on.
  void stop() const;
  /// The process ids that carry this launch's mark in their environment, hrun left out.
  [[nodiscard]] std::vector<int> processes() const;
  /// The process ids of `processes` that a rank's environment names.
  [[nodiscard]] std::vector<int> processes_of_ranks() const;
  /// Waits until there are none any more; false after ten seconds.
  [[nodiscard]] bool all_gone() const;

 private:
  void await_news(pollfd* events, nfds_t count);
  bool read_some(int& fd, std::string& text);

  std::string mark_;
  int pid_ = 0;
  int output_ = -1;
  int errors_ = -1;
  Outcome outcome_;
  double start_ = 0;
  double until_ = 0;
  bool overdue_ = false;
};

Outcome run_hrun(const std::vector<std::string>& arguments, const std::vector<int>& ignored = {});

/// The words after "hrun" that start job_worker with these words on so many ranks.
std::vector<std::string> worker(int ranks, const std::vector<std::string>& words,
                                const std::vector<std::string>& options = {});

}  // namespace hora
