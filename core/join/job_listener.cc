// SPDX-License-Identifier: Apache-2.0
#include <hora/job_listener.h>

#include "core/join/address.h"
#include "core/join/listener.h"
#include "core/join/network.h"
#include "core/join/secret.h"

#include <fmt/format.h>
#include <sodium.h>

#include <cerrno>
#include <cstring>

namespace hora {

struct JobListener::State {
  Descriptor socket;
  std::string coordinator;
  Secret secret;

  ~State() { sodium_memzero(secret.data(), secret.size()); }
};

JobListener::JobListener(const std::string& network) : state_(std::make_unique<State>()) {
  state_->socket = listen_on_network(network);
  if (!state_->socket)
    throw Error(Code::unavailable, fmt::format("rank 0 cannot listen: {}", std::strerror(errno)));
  const std::string port = fmt::to_string(port_of(state_->socket));
  for (const auto& host : own_addresses(network))
    state_->coordinator += (state_->coordinator.empty() ? "" : ",") + format(Address{host, port});
  state_->secret = new_secret();
}

JobListener::JobListener(JobListener&&) noexcept = default;
JobListener& JobListener::operator=(JobListener&&) noexcept = default;
JobListener::~JobListener() = default;

const std::string& JobListener::coordinator() const { return state_->coordinator; }
const Secret& JobListener::secret() const { return state_->secret; }
int JobListener::fd() const { return state_->socket.fd(); }

}  // namespace hora
