// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/join/connector.h"

#include <map>
#include <optional>

namespace hora::tcp {

/// Opens the connections for messages to other ranks, to several at a time (Connector). Nothing blocks. Not
/// thread-safe.
class Dialer {
 public:
  /// `places[r]`: the addresses of rank r (AddressBook).
  Dialer(const World& world, const Config& config, std::vector<std::vector<Address>> places)
      : config_(config), membership_(world.membership), members_(world.members), places_(std::move(places)) {}

  /// Begins to connect to a rank, unless that is under way.
  void want(int rank);

  struct Answer {
    int rank;
    std::optional<Connection> connection;  ///< nothing: the rank cannot be reached
    Status failed;                         ///< then: the reason (`describe_unreachable`)
  };
  /// Does what can be done without waiting. Returns the ranks that have been reached, and those that have
  /// been given up: all addresses have failed several times, or HORA_START_TIMEOUT is over. After that,
  /// `want` may begin anew.
  std::vector<Answer> serve(TimePoint now);
  /// The caller waits for events on these sockets, or this time, before the next `serve`.
  void append_to(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

 private:
  struct Call {
    Connector connector;
    TimePoint deadline;
  };

  Config config_;
  Membership membership_;
  std::vector<Member> members_;
  std::vector<std::vector<Address>> places_;
  std::map<int, Call> calls_;  // by rank
};

}  // namespace hora::tcp
