// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_reader.h"
#include "core/backend/tcp/messages/message_receiver.h"
#include "core/join/acceptor.h"

#include <span>
#include <vector>

namespace hora::tcp {

/// The connections that other ranks open to this one for their messages. It accepts them, and reads the
/// frames that come for the MessageReceiver. Nothing blocks. Not thread-safe: for the I/O thread.
class IncomingConnections {
 public:
  /// The most frames of one rank that are read at a time, so that no sender keeps the others waiting.
  static constexpr int kMostFrames = 256;

  /// `listener`: where this rank accepts. `receiver` must live longer.
  IncomingConnections(const World& world, const Config& config, Descriptor listener,
                      MessageReceiver& receiver);

  /// The caller waits for these events, or this time, before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// Does what can be done without waiting. `events`: begin with those of `append_to`, after poll().
  void turn(std::span<const pollfd> events);

 private:
  struct Source {
    int rank;
    MessageReader reader;
    DataSocket* socket;     // the receiver owns it
    bool has_more = false;  // than poll() tells
    bool lost = false;
  };
  void read(Source& source);
  void accept(TimePoint now);
  void report_shortage(TimePoint now);

  const int rank_;
  const int ranks_;
  const std::string encryption_;
  const std::chrono::milliseconds time_to_connect_;
  Acceptor acceptor_;
  MessageReceiver& receiver_;
  std::vector<Source> sources_;
  TimePoint told_of_shortage_;
};

}  // namespace hora::tcp
