// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/agent_channel.h"
#include "runner/launch/clock_offset.h"
#include "runner/launch/process.h"
#include "runner/launch/stderr_tail.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hora::hrun {

/// The way to reach a host: by ssh, or by srun within a Slurm allocation. A value.
struct RemoteHost {
  std::string host;                  ///< as the user names it
  std::vector<std::string> command;  ///< starts an agent on the host, with its stdin and stdout connected
  /// Returns why no agent has started. `words`: what the command wrote to stderr; `exit_code`: its exit code.
  std::function<std::string(const std::string& words, int exit_code)> explain;
  /// Once the ranks of an elastic job have joined, the host is lost if nothing comes from it for so long.
  std::chrono::milliseconds silence{kSilence};
};

/// The exit code of a job that has lost a host. ssh uses the same code.
inline constexpr int kHostLost = 255;

/// The connection to the agent of another host: the program that leads there (ssh or srun), and the pipes to
/// it. RemoteRanks sends and receives its messages.
///
///   connecting   the program runs, and its output is skipped up to the greeting of the agent
///   greeted      the agent has the same version: messages go both ways, and pings check that it is alive
///   closed       the other end has closed the pipe; the program has one second to end and to give its reason
///   over         `drop` was called: nothing is sent or read any more
///
/// Only the destructor blocks, and only after `part`. Not thread-safe.
class AgentConnection {
 public:
  /// Starts the program. Throws Error(unavailable) if it cannot be started.
  AgentConnection(RemoteHost remote, TimePoint now);
  /// Kills the program. If `part` was called, waits first, for up to a second, until the agent has ended.
  ~AgentConnection();
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  /// Sends a message at once, unless the connection is over.
  void send(Word word, std::span<const std::byte> body = {});
  /// Adds a message to the queue, which the next `send` or `speak` writes.
  void queue(Word word, std::span<const std::byte> body = {}) { channel_.send(word, body); }
  /// Whether the queue is so long that a caller which can wait should add nothing.
  [[nodiscard]] bool full() const { return channel_.full(); }

  /// Reads the bytes that are there. Returns true if the agent has greeted in this call, and so waits for
  /// messages.
  bool read(TimePoint now);
  /// Returns the next message of the agent, if one has come; handles answers to pings itself. Throws
  /// Error(internal) for bytes that no agent sends.
  std::optional<AgentMessage> next_message(TimePoint now);
  /// From here on the connection is lost if nothing comes for so long. Up to now that was kSilence.
  void set_silence(std::chrono::milliseconds silence, TimePoint now) {
    silence_ = silence;
    next_ping_ = now;
  }
  /// Queues a ping when the time for the next one has come, and writes the queue.
  void speak(TimePoint now);

  /// The loss of the connection. A value.
  struct Loss {
    std::string why;
    TimePoint when;  ///< when the connection was last known to work
  };
  /// The loss of the connection, if it is lost. There are three cases: the agent has another version, the
  /// program has ended, or nothing has come for too long. Call it after `read`.
  [[nodiscard]] std::optional<Loss> loss(TimePoint now);
  /// Kills the program. Nothing is sent or read any more.
  void drop();
  /// Closes the agent's input, which tells the agent to end. Only the destructor may be called after that.
  void part();

  [[nodiscard]] bool greeted() const { return greeted_; }
  [[nodiscard]] bool closed() const { return closed_at_.has_value(); }
  [[nodiscard]] bool over() const { return over_; }
  /// The text that the program has written to stderr, for quoting in a message.
  [[nodiscard]] std::string words() const { return errors_.quoted(); }
  /// Converts a time of the agent's clock, in microseconds, to the clock of this process. The result is never
  /// later than `now`.
  [[nodiscard]] TimePoint ours(std::uint64_t theirs, TimePoint now) const { return clock_.ours(theirs, now); }

  /// Adds the events that the caller waits for before the next `read`.
  void watch(std::vector<pollfd>& events) const;
  /// The latest time for the next `read`.
  [[nodiscard]] TimePoint next() const;
  /// Notes that a child of this process has ended, was stopped, or continues. `wait_status`: as waitpid()
  /// gives it.
  void child_changed(int pid, int wait_status);

 private:
  [[nodiscard]] std::chrono::milliseconds pause() const { return silence_ / kPingsInSilence; }
  [[nodiscard]] TimePoint silent_since() const { return std::max(channel_.heard(), stood_still_); }
  static Process start(const std::vector<std::string>& command, Pipe& input);
  void greet(const std::string& line);
  void await_agent() const;
  std::string why_it_ended();

  const RemoteHost host_;
  Pipe input_;
  Process process_;
  AgentChannel channel_;
  StderrTail errors_;
  ClockOffset clock_;
  std::chrono::milliseconds silence_{kSilence};
  TimePoint next_ping_ = TimePoint::min();
  TimePoint stood_still_ = TimePoint::min();  // until when this process did, and read nothing
  std::optional<TimePoint> closed_at_;
  std::optional<TimePoint> parted_at_;
  std::optional<int> exit_;      // the exit code of the program, once it was reaped
  std::string foreign_version_;  // the error if the agent has another version; else empty
  bool greeted_ = false;
  bool over_ = false;
};

}  // namespace hora::hrun
