// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/membership.h"
#include "core/join/address.h"
#include "core/join/handshake.h"

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace hora {

/// The search for one rank at all addresses that it may have.
///
/// Addresses are tried side by side, the next a quarter of a second after the one before or when that has
/// failed. The address that the right rank answers first, proved by its answer, is taken. The others are
/// dropped before they have proved anything. So the other side sees one initiator however many ways there
/// are. A wrong address, a foreign service or a silent one costs nothing but its try. An address that has
/// failed is tried again, ever more slowly. Nothing blocks. Not thread-safe.
class Connector {
 public:
  /// `hello`: who calls whom. `addresses`: numeric, the best first.
  Connector(const Secret& secret, const Hello& hello, const std::vector<Address>& addresses, TimePoint now);

  /// One more address, if it is new.
  void add(const Address& address);

  /// Does what can be done without waiting; the connection, when it is there.
  std::optional<Connection> serve(TimePoint now);
  /// The caller waits for events on these sockets, or this time, before the next `serve`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

  /// Where the rank was found. Only after `serve` has returned its connection.
  [[nodiscard]] const Address& found() const { return tries_[found_].address; }
  /// Whether the caller should give up: two seconds have passed, every address has failed four times or more,
  /// and none is being tried at this moment. An address that accepts and never answers, or whose packets are
  /// dropped, is being tried; so the caller also needs a deadline.
  [[nodiscard]] bool hopeless(TimePoint now) const;
  /// Whether packets are dropped at one address or more, for longer than the loss of one packet costs, and
  /// all others have failed. A host that starts, or whose process is busy, may be like that for a while; one
  /// that was there a moment ago is cut off.
  [[nodiscard]] bool unanswered() const;
  /// How each address has failed so far: "10.1.0.4:4711 refused".
  [[nodiscard]] std::vector<std::string> failures() const;

 private:
  struct Try {
    Address address;
    Descriptor socket{};
    TimePoint late = TimePoint::max();  ///< when an answer to this socket is late; max: it is late
    std::optional<Initiator> initiator{};
    bool connected = false;
    Bytes received{};
    TimePoint again = TimePoint::max();  ///< when to begin, if there is no socket
    int failed = 0;                      ///< how often
    std::string how{};
  };
  void begin(TimePoint now);
  void open(Try& attempt, TimePoint now);
  static void begin_talk(Try& attempt, TimePoint now);
  static std::optional<SessionKeys> answered(Try& attempt, TimePoint now);
  static std::optional<SessionKeys> prove(Try& attempt);
  static void fail(Try& attempt, std::string how, TimePoint now, std::chrono::milliseconds most);

  Secret secret_;
  Hello hello_;
  TimePoint since_;
  TimePoint next_begin_;
  std::vector<Try> tries_;
  std::size_t begun_ = 0;  // of tries_
  std::size_t found_ = 0;
};

/// Whether a rank that is called is out of reach although its host was there a moment ago: launchers know the
/// hosts of an elastic job's members.
[[nodiscard]] inline bool is_cut_off(const Membership& membership, const Connector& connector) {
  return membership.generation > 0 && connector.unanswered();
}

}  // namespace hora
