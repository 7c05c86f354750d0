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

/// How to reach a host. A value.
struct Road {
  std::string host;                  ///< as the user calls it
  std::vector<std::string> command;  ///< starts an agent there, with its standard input and output connected
  /// Why there is no agent: from what that program wrote to stderr, and its exit code.
  std::function<std::string(const std::string& words, int exit_code)> explain;
};

/// The exit code of a job whose host is lost, as of ssh itself.
inline constexpr int kHostLost = 255;

/// The connection to the agent of another host: the program that leads there (ssh), and the pipes to it.
///
///   connecting   the program runs, and its output is skipped up to the agent's greeting
///   greeted      the agent is of this version: messages go both ways, and pings show that it lives
///   closed       the other end has closed the pipe, and the program has a second to end and tell its reason
///   over         `drop` was called: nothing is sent or read any more
///
/// Only the destructor blocks, and only after `part`. Not thread-safe.
class AgentConnection {
 public:
  /// Starts the program. Throws Error(unavailable) if it cannot be started.
  AgentConnection(Road road, TimePoint now);
  /// Kills the program. After `part` it first waits, up to a second, until the agent has ended.
  ~AgentConnection();
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  /// Sends a message at once, unless the connection is over.
  void send(Word word, std::span<const std::byte> body = {});
  /// Queues a message for the next `send` or `speak`.
  void queue(Word word, std::span<const std::byte> body = {}) { channel_.send(word, body); }
  /// Whether so much is queued that a caller which can wait should add nothing.
  [[nodiscard]] bool full() const { return channel_.full(); }

  /// Reads what is there. True: the agent has greeted in this call, and waits for messages.
  bool read(TimePoint now);
  /// The next message of the agent; answers to pings stay here. Throws Error(internal) for bytes that no
  /// agent sends.
  std::optional<AgentMessage> next_message(TimePoint now);
  /// Sends a ping when it is time for one, and writes what is queued.
  void speak(TimePoint now);

  /// The loss of the connection. A value.
  struct Loss {
    std::string why;
    TimePoint when;  ///< when it last was well
  };
  /// Whether the connection is lost: the agent is of another version, the program has ended, or nothing has
  /// been heard for kSilence. Call it after `read`.
  [[nodiscard]] std::optional<Loss> loss(TimePoint now);
  /// Kills the program, and neither sends nor reads any more.
  void drop();
  /// Closes the agent's input, by which the agent knows that it is to end. Only the destructor may follow.
  void part();

  [[nodiscard]] bool greeted() const { return greeted_; }
  [[nodiscard]] bool closed() const { return closed_at_.has_value(); }
  [[nodiscard]] bool over() const { return over_; }
  /// The text that the program has written to stderr, to be quoted.
  [[nodiscard]] std::string words() const { return errors_.quoted(); }
  /// A time of the agent's clock by ours.
  [[nodiscard]] TimePoint ours(std::uint64_t theirs, TimePoint now) const { return clock_.ours(theirs, now); }

  /// The caller waits for these events, or this time, before the next `read`.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// A child of this process has ended, was stopped, or goes on.
  void child_changed(int pid, int wait_status);

 private:
  static Process start(const std::vector<std::string>& command, Pipe& input);
  void greet(const std::string& line);
  void await_agent() const;
  std::string why_it_ended();

  const Road road_;
  Pipe input_;
  Process process_;
  AgentChannel channel_;
  StderrTail errors_;
  ClockOffset clock_;
  TimePoint next_ping_ = TimePoint::min();
  std::optional<TimePoint> closed_at_;
  std::optional<TimePoint> parted_at_;
  std::optional<int> exit_;      // of the program, once it was reaped
  std::string foreign_version_;  // says that the agent is of another version; empty: it is not
  bool greeted_ = false;
  bool over_ = false;
};

}  // namespace hora::hrun
