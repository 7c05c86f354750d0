// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/join/connector.h"

#include <map>
#include <optional>

namespace hora::tcp {

/// Calls other ranks for messages: side by side, each at all addresses that it may have. Nothing blocks. Not
/// thread-safe.
class Dialer {
 public:
  /// `places`: by rank, see AddressBook.
  Dialer(const World& world, const Config& config, std::vector<std::vector<Address>> places)
      : config_(config), membership_(world.membership), members_(world.members), places_(std::move(places)) {}

  /// Begins to call a rank, unless that is under way.
  void want(int rank);

  struct Answer {
    int rank;
    std::optional<Connection> connection;  ///< none:
    Status failed;                         ///< why the rank is out of reach
  };
  /// Does what can be done without waiting; those that have been reached, or given up: nobody calls them any
  /// more.
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
