// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/agent_message.h"
#include "runner/streams/output_sink.h"

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// One side of the connection between hrun and an agent. Nothing blocks: what cannot be written waits here,
/// and is bounded by the windows of the streams.
class AgentChannel {
 public:
  /// Borrows the descriptors, which may be the same.
  AgentChannel(int in, int out, TimePoint now) : in_(in), sink_(out), heard_(now) {}

  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// Reads what is there.
  void read(TimePoint now);
  /// The other side has closed the connection; what it sent before can still be taken.
  [[nodiscard]] bool closed() const { return closed_; }
  /// Whether there is nothing to read for now.
  [[nodiscard]] bool drained() const { return closed_ || !await_events(in_, POLLIN, TimePoint::min()); }
  /// When something last came.
  [[nodiscard]] TimePoint heard() const { return heard_; }

  std::optional<std::string> next_line() { return reader_.next_line(); }
  std::optional<AgentMessage> next() { return reader_.next(); }

  void send_line(std::string_view line);
  void send(Word word, std::span<const std::byte> body = {});
  void flush() { sink_.flush(); }
  /// Nothing more will be sent: the other side sees the end, once the borrowed descriptor is closed, too.
  void hang_up() { sink_ = OutputSink(-1); }
  [[nodiscard]] bool all_sent() const { return sink_.empty(); }
  /// So much waits to be sent that what can wait should.
  [[nodiscard]] bool full() const { return sink_.full(); }

 private:
  int in_;
  OutputSink sink_;
  AgentMessageReader reader_;
  TimePoint heard_;
  bool closed_ = false;
};

}  // namespace hora::hrun
