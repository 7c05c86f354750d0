// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/reserved_listener.h"

#include "core/join/listener.h"
#include "runner/launch/process.h"

namespace hora::hrun {

ReservedListener::ReservedListener(bool alone, const std::string& network)
    : socket_(alone ? listen_on_loopback() : listen_on_network(network)) {
  if (!socket_) fail(alone ? "cannot listen on 127.0.0.1" : "cannot listen on this machine's addresses");
  port_ = port_of(socket_);
}

}  // namespace hora::hrun
