// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>

namespace hora::hrun {

/// Rank 0's socket. It is made before rank 0 is, so that no other program can take its port between the
/// choice and the use.
class ReservedListener {
 public:
  /// Listens on the loopback if the job is on this machine alone, else on the network (--network, see
  /// listen_on_network). Throws Error(unavailable), and what own_addresses throws.
  ReservedListener(bool alone, const std::string& network);

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] int port() const { return port_; }

 private:
  Descriptor socket_;
  int port_ = 0;
};

}  // namespace hora::hrun
