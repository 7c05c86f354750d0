// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/frame.h"
#include "core/comm/handshake.h"
#include "core/comm/socket_io.h"
#include "core/comm/world.h"

#include <poll.h>

#include <vector>

namespace hora {

/// The door of rank 0: everybody who connects waits here until it has proved that it knows the secret and has
/// said who it is. Nothing blocks: a silent or slow stranger holds up nobody, is sent away after five
/// seconds, and the oldest goes when there are too many. Refusals are logged once. Not thread-safe.
class Lobby {
 public:
  Lobby(Descriptor listener, const Secret& secret) : listener_(std::move(listener)), secret_(secret) {}

  struct Arrival {
    Descriptor socket;
    Hello hello;
    Member member;
  };
  /// Does what can be done without waiting; those who have passed.
  std::vector<Arrival> serve(TimePoint now);

  /// What to wait for before the next `serve`: events on these sockets, or this time.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

 private:
  struct Stranger {
    Stranger(Descriptor connection, const Secret& secret, TimePoint until)
        : socket(std::move(connection)), host(secret), deadline(until) {}
    Descriptor socket;
    Host host;
    TimePoint deadline;
    enum class Stage { hello, proof, head, member } stage = Stage::hello;
    Bytes received;
    std::size_t wanted = kHelloBytes;
    Hello hello;
  };
  void accept_strangers(TimePoint now);
  /// Takes one message of a stranger if it is there; the arrival that it completes. Throws Error.
  static std::optional<Arrival> advance(Stranger& stranger);
  static bool receive(Stranger& stranger);
  void refuse(const Error& error);

  Descriptor listener_;
  Secret secret_;
  std::vector<Stranger> strangers_;
  bool refused_ = false;
};

}  // namespace hora
