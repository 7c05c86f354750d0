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

/// A rank's door: everybody who connects waits here until it has proved that it knows the secret, and, if it
/// comes for control, has said who it is. Nothing blocks: a silent or slow stranger holds up nobody and is
/// sent away after five seconds. Ranks speak first, and at once; so when all 64 places are taken and somebody
/// knocks, whoever has come first of those who have not said hello for a tenth of a second goes, else whoever
/// has not gone on for a second after it; until there is one the newcomer waits in the listener's queue.
/// Refusals are logged once; who leaves by itself is none: ranks try several ways at once. Not thread-safe.
class Acceptor {
 public:
  /// `rank`: whose door it is.
  Acceptor(Descriptor listener, const Secret& secret, int rank = 0)
      : listener_(std::move(listener)), secret_(secret), rank_(rank) {}

  struct Arrival {
    Connection connection;
    Hello hello;
    Member member;  ///< of who comes for control
  };
  /// Does what can be done without waiting; those who have passed.
  std::vector<Arrival> serve(TimePoint now);

  /// The caller waits for events on these sockets, or this time, before the next `serve`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

  /// Since when this process has had no descriptors to let in those who knock, and why; nothing: it has.
  struct Shortage {
    TimePoint since;
    std::string why;  ///< with the limit
  };
  [[nodiscard]] const std::optional<Shortage>& shortage() const { return shortage_; }

 private:
  struct Stranger {
    Stranger(Descriptor connection, const Secret& secret, int rank, TimePoint now)
        : socket(std::move(connection)), host(secret, rank), came(now) {}
    Descriptor socket;
    Host host;
    TimePoint came;
    enum class Stage { hello, proof, head, member } stage = Stage::hello;
    Bytes received;
    std::size_t wanted = kHelloBytes;
    std::optional<SessionKeys> session;  // after the proof
    /// When others may have its place.
    [[nodiscard]] TimePoint gives_way() const;
  };
  void accept_strangers(TimePoint now);
  /// Whether there is, or can be made, room for one more.
  bool make_room(TimePoint now);
  void pause(int error, TimePoint now, TimePoint since);
  [[nodiscard]] bool full() const;
  /// Takes one message of a stranger if it is there; the arrival that it completes. Throws Error.
  static std::optional<Arrival> advance(Stranger& stranger);
  static std::optional<Arrival> take(Stranger& stranger);
  static void answer(Stranger& stranger);
  static Arrival let_in(Stranger& stranger, Member member);
  static bool receive(Stranger& stranger);
  void refuse(const Stranger& stranger, const Error& error);

  Descriptor listener_;
  Secret secret_;
  int rank_;
  std::vector<Stranger> strangers_;            // by when they came
  TimePoint closed_until_ = TimePoint::min();  // this process has no descriptors left
  bool refused_ = false;
  std::optional<Shortage> shortage_;
  bool told_of_shortage_ = false;
};

}  // namespace hora
