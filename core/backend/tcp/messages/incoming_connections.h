// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_reader.h"
#include "core/backend/tcp/messages/message_receiver.h"
#include "core/join/acceptor.h"

#include <span>
#include <vector>

namespace hora::tcp {

/// The connections that other ranks open to this rank for their messages. It accepts the connections, and
/// reads their frames for the MessageReceiver. No function blocks. Not thread-safe: for the I/O thread.
class IncomingConnections {
 public:
  /// The most frames of one rank that one `turn` reads, so no sender keeps the others waiting.
  static constexpr int kMostFrames = 256;

  /// `listener`: the socket at which this rank accepts connections. `receiver` must outlive this object.
  IncomingConnections(const World& world, const Config& config, Descriptor listener,
                      MessageReceiver& receiver);

  /// Adds the events that the caller waits for before the next `turn`.
  void append_to(std::vector<pollfd>& events) const;
  /// The latest time for the next `turn`.
  [[nodiscard]] TimePoint next() const;
  /// Does what is possible without waiting. `events` begins with the events of `append_to`, after poll().
  void turn(std::span<const pollfd> events);

 private:
  struct Source {
    int rank;
    MessageReader reader;
    DataSocket* socket;     // the receiver owns it
    bool has_more = false;  // bytes are left to read, although poll() may not report them
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
  TimePoint told_of_shortage_;  // when receives last failed because this rank could not accept
};

}  // namespace hora::tcp
