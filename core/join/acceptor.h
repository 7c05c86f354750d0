// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"
#include "core/comm/world.h"
#include "core/join/frame.h"
#include "core/join/handshake.h"

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace hora {

/// Accepts connections to this rank. A connection stays here until its other end has proved that it knows the
/// secret. One for control must also have said which rank it is. Nothing blocks, so a slow peer holds up no
/// other; after five seconds it is refused.
///
/// At most 64 connections are in this state. If another one comes then, one of the 64 is closed for it. Each
/// may be closed 1 s after it was accepted, and 100 ms after it as long as no hello has come. The connection
/// that reaches this time first is closed. Until one does, the new connection waits in the listener's queue.
/// Ranks say hello at once, so this hits unknown processes first.
///
/// Only the first refusal is logged. A peer that closes its connection is no refusal, as ranks try several
/// ways at once, and neither is a connection closed for another one. Not thread-safe.
class Acceptor {
 public:
  /// `rank`: the rank that accepts.
  Acceptor(Descriptor listener, const Secret& secret, int rank = 0)
      : listener_(std::move(listener)), secret_(secret), rank_(rank) {}

  struct Arrival {
    Connection connection;
    Hello hello;
    Member member;  ///< of a connection for control
  };
  /// Does what can be done without waiting; those who have passed.
  std::vector<Arrival> serve(TimePoint now);

  /// The caller waits for events on these sockets, or this time, before the next `serve`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

  /// Since when this process has had no descriptors to accept connections, and why; nothing: it has.
  struct Shortage {
    TimePoint since;
    std::string why;  ///< with the limit
  };
  [[nodiscard]] const std::optional<Shortage>& shortage() const { return shortage_; }

 private:
  struct PendingConnection {
    PendingConnection(Descriptor connection, const Secret& secret, int rank, TimePoint now)
        : socket(std::move(connection)), responder(secret, rank), came(now) {}
    Descriptor socket;
    Responder responder;
    TimePoint came;
    enum class Stage { hello, proof, head, member } stage = Stage::hello;
    Bytes received;
    std::size_t wanted = kHelloBytes;
    std::optional<SessionKeys> session;  // after the proof
    /// When it may be closed for another connection.
    [[nodiscard]] TimePoint gives_way() const;
  };
  void accept_connections(TimePoint now);
  /// Whether there is, or can be made, room for one more.
  bool make_room(TimePoint now);
  void pause(int error, TimePoint now, TimePoint since);
  [[nodiscard]] bool full() const;
  /// Takes one message of a connection if it is there; the arrival that it completes. Throws Error.
  static std::optional<Arrival> advance(PendingConnection& pending);
  static std::optional<Arrival> take(PendingConnection& pending);
  static void answer(PendingConnection& pending);
  static Arrival let_in(PendingConnection& pending, Member member);
  static bool receive(PendingConnection& pending);
  void refuse(const PendingConnection& pending, const Error& error);

  Descriptor listener_;
  Secret secret_;
  int rank_;
  std::vector<PendingConnection> pending_;     // by when they came
  TimePoint closed_until_ = TimePoint::min();  // this process has no descriptors left
  bool refused_ = false;
  std::optional<Shortage> shortage_;
  bool told_of_shortage_ = false;
};

}  // namespace hora
