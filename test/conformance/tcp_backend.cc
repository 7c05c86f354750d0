// SPDX-License-Identifier: Apache-2.0
#include "test/conformance/collective_suite.h"
#include "test/conformance/control_suite.h"
#include "test/support/tcp_ranks.h"

namespace hora {
namespace {

std::vector<std::unique_ptr<Control>> controls(int ranks) {
  std::vector<std::unique_ptr<Control>> all;
  for (auto& world : connect_tcp_ranks(loopback_configs(ranks))) all.push_back(std::move(world.control));
  return all;
}

const RegisterControl kControl{{"tcp", controls}};

const RegisterCollective kCollective{{"tcp", connect_tcp_collectives}};

}  // namespace
}  // namespace hora
