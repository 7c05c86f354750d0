// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/base/socket_io.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// The socket where a probe listens for others, at all addresses of this machine. A probe that connects shows
/// the socket's token, which the probes of a job tell each other through the job. Others are turned away.
/// Throws Error(unavailable).
class ProbeSocket {
 public:
  ProbeSocket();
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] const std::string& token() const { return token_; }
  /// The next one that shows the token, and comes for this round; those who came too late for another one are
  /// turned away. Throws Error(timeout) at the deadline.
  [[nodiscard]] Descriptor accept(int round, TimePoint deadline) const;

 private:
  Descriptor listener_;
  int port_ = 0;
  std::string token_;
};

/// A connection to a probe, for this round, by the first of its addresses that can be reached. Throws
/// Error(unavailable) that tells of each how it failed: "10.1.0.2:4000: Connection refused, ...".
[[nodiscard]] Descriptor reach_probe(const std::vector<std::string>& addresses, int port,
                                     const std::string& token, int round, TimePoint deadline);

/// The numeric addresses of a connection's ends.
[[nodiscard]] std::string own_end(int fd);
[[nodiscard]] std::string other_end(int fd);

}  // namespace hora::hrun
