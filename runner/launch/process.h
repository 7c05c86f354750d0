// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// Throws Error(unavailable): what was tried, and what the system says of it (errno).
[[noreturn]] void fail(const std::string& what);

/// Words as exec takes them. They point into `words`.
[[nodiscard]] std::vector<char*> pointers(const std::vector<std::string>& words);

/// For sh: one word, whatever it contains.
[[nodiscard]] std::string shell_quoted(const std::string& word);

/// The ends of a pipe, which no program inherits.
struct Pipe {
  Descriptor read;
  Descriptor write;
};
/// Throws Error(unavailable).
[[nodiscard]] Pipe make_pipe();

/// One program to start. A value.
struct ProcessPlan {
  std::vector<std::string> command;      ///< the first is a path
  std::vector<std::string> environment;  ///< "NAME=VALUE"
  std::vector<int> inherited;            ///< descriptors that it keeps, beside 0 to 2
  int input = -1;                        ///< standard input; -1: /dev/null
  /// Instead of it: a terminal, in a session of the program's own, as standard input and output; -1: none.
  int terminal = -1;
  std::vector<int> cpus = {};  ///< on which it may run; empty: on all on which hrun may
  int announce = -1;           ///< where it writes its process group (an int) before it becomes the program
  /// The variable that tells the program which pipe its stderr is, "device:inode"; empty: none does.
  std::string errors_variable = {};
};

/// A program that runs: its process group, and the read ends of its output. Output that it writes to a
/// terminal is not here. Moves.
struct Process {
  int pid = 0;  ///< also its process group
  Descriptor output;
  Descriptor errors;
};

/// Starts it in a process group of its own. It dies with the thread that called this (PDEATHSIG). Throws
/// Error(unavailable) with the system's reason if it cannot be started.
[[nodiscard]] Process start(const ProcessPlan& plan);

/// How a process ended, as wait() tells it.
struct Ending {
  int exit_code = 0;  ///< 128 + signal if it was killed
  std::string how;    ///< "exited with code 7", "was killed by signal 9 (Killed)"
  int signal = 0;     ///< that killed it; 0: it exited
};
[[nodiscard]] Ending describe_ending(int wait_status);
/// Of a process that stands still and may go on: "was stopped by signal 19 (Stopped (signal))".
[[nodiscard]] Ending describe_stop(int signal);

}  // namespace hora::hrun
