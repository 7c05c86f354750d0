// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/agent_message.h"
#include "runner/streams/output_sink.h"

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// One end of the connection between hrun and an agent, which both have one. Nothing blocks. Messages are
/// queued here until `flush` can write them; the windows of the streams bound the queue.
class AgentChannel {
 public:
  /// Borrows the descriptors, which may be the same.
  AgentChannel(int in, int out, TimePoint now) : in_(in), sink_(out), heard_(now) {}

  /// Adds the events that poll() has to wait for: for reading, and for writing if something is queued.
  void watch(std::vector<pollfd>& events) const;
  /// Reads the bytes that are there, for `next_line` and `next`.
  void read(TimePoint now);
  /// Whether the other end has closed the connection. Messages that came before can still be taken.
  [[nodiscard]] bool closed() const { return closed_; }
  /// Whether there is nothing to read at this moment.
  [[nodiscard]] bool drained() const { return closed_ || !await_events(in_, POLLIN, TimePoint::min()); }
  /// The time of the last `read` that found bytes; at first, the time of construction.
  [[nodiscard]] TimePoint heard() const { return heard_; }

  std::optional<std::string> next_line() { return reader_.next_line(); }
  std::optional<AgentMessage> next() { return reader_.next(); }

  /// Queues a line or a message. Nothing is written before `flush`.
  void send_line(std::string_view line);
  void send(Word word, std::span<const std::byte> body = {});
  /// Writes as much of the queue as can be written now. If the other end reads no more, discards the queue.
  /// That is no error here: `closed`, or silence, tells the caller that the connection is over.
  void flush() { sink_.flush(); }
  /// Whether something is queued. False does not say that the other end has received all, or will.
  [[nodiscard]] bool has_queued() const { return !sink_.empty(); }
  /// Whether so much is queued that a caller which can wait should add nothing.
  [[nodiscard]] bool full() const { return sink_.full(); }
  /// Discards the queue and uses the descriptor for writing no more. Once the caller has closed that
  /// descriptor, the other end sees the end of the connection.
  void hang_up() { sink_ = OutputSink(-1); }

 private:
  int in_;
  OutputSink sink_;
  AgentMessageReader reader_;
  TimePoint heard_;
  bool closed_ = false;
};

}  // namespace hora::hrun
