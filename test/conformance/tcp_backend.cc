// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_collective.h"
#include "test/conformance/collective_suite.h"
#include "test/conformance/control_suite.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

namespace hora {
namespace {

std::vector<std::unique_ptr<Control>> controls(int ranks) {
  std::vector<std::unique_ptr<Control>> all;
  for (auto& world : connect_tcp_ranks(loopback_configs(ranks))) all.push_back(std::move(world.control));
  return all;
}

const RegisterControl kControl{{"tcp", controls}};

const RegisterCollective kCollective{
    {"tcp", [](int ranks) {
       const auto configs = loopback_configs(ranks);
       auto worlds = connect_tcp_ranks(configs);
       std::vector<std::unique_ptr<Collective>> all(static_cast<std::size_t>(ranks));
       run_ranks(ranks, [&](int rank) {
         const auto at = static_cast<std::size_t>(rank);
         all[at] = connect_tcp(*worlds[at].control, worlds[at].members, configs[at],
                               Clock::now() + configs[at].start_timeout);
       });
       run_ranks(ranks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
       return all;
     }}};

}  // namespace
}  // namespace hora
