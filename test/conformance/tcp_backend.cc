// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/tcp_collective.h"
#include "test/conformance/collective_suite.h"
#include "test/conformance/control_suite.h"
#include "test/conformance/messenger_suite.h"
#include "test/support/paired_links.h"
#include "test/support/tcp_ranks.h"

namespace hora {
namespace {

std::vector<std::unique_ptr<Control>> controls(const std::vector<Config>& configs) {
  std::vector<std::unique_ptr<Control>> all;
  for (auto& world : connect_tcp_ranks(configs)) all.push_back(std::move(world.control));
  return all;
}

const RegisterControl kTcpControl{{"tcp", [](int ranks) { return controls(loopback_configs(ranks)); }}};
const RegisterControl kTcpTree{{"tcp_tree", [](int ranks) { return controls(tree_configs(ranks, 2)); }}};
const RegisterControl kTcpChain{{"tcp_chain", [](int ranks) { return controls(tree_configs(ranks, 1)); }}};

const RegisterMessenger kTcpMessenger{{"tcp", [](int ranks) { return connect_tcp_messengers(ranks); }}};
const RegisterMessenger kTcpSealedMessenger{
    {"tcp_sealed", [](int ranks) { return connect_tcp_messengers(ranks, "all"); }}};

const RegisterCollective kTcpCollective{
    {"tcp", [](int ranks) { return connect_tcp_collectives(ranks); }, exactly({1, 2, 3, 9})}};
const RegisterCollective kTcpSealed{
    {"tcp_sealed", [](int ranks) { return connect_tcp_collectives(ranks, "all"); }, exactly({2, 9})}};

/// One algorithm over as many sockets between two ranks.
std::vector<std::unique_ptr<Collective>> forced(tcp::Algorithm algorithm, int ranks, int streams) {
  tcp::TcpKnobs knobs;
  knobs.algorithm = algorithm;
  std::vector<std::unique_ptr<Collective>> all;
  for (auto& links : paired_links(ranks, streams)) all.push_back(tcp::make_tcp_collective(links, knobs));
  return all;
}

const RegisterCollective kShares{
    {"tcp_shares", [](int ranks) { return forced(tcp::Algorithm::shares, ranks, 3); }, exactly({3, 8})}};
const RegisterCollective kRing{
    {"tcp_ring", [](int ranks) { return forced(tcp::Algorithm::ring, ranks, 2); }, exactly({2, 9})}};
const RegisterCollective kHalving{{"tcp_halving",
                                   [](int ranks) { return forced(tcp::Algorithm::halving, ranks, 1); },
                                   exactly({2, 8, 11})}};

}  // namespace
}  // namespace hora
