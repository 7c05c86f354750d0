// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/plan.h"

#include "core/base/bytes.h"
#include "runner/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::hrun {
namespace {

constexpr std::size_t kLongestWord = 4 << 20;  // beyond what the system takes for a variable or an argument
constexpr std::uint64_t kMostRanks = 1 << 20;
constexpr std::uint64_t kMostPort = 1 << 16;
constexpr std::uint64_t kMostWindow = 1 << 16;

void put(Writer& out, const std::vector<std::string>& words) {
  out.u64(words.size());
  for (const auto& word : words) out.string(word);
}

std::vector<std::string> take_words(Reader& in) {
  std::vector<std::string> words(in.count(1, "texts"));
  for (auto& word : words) word = in.string(kLongestWord);
  return words;
}

void put(Writer& out, int number) { out.u64(static_cast<std::uint64_t>(number)); }

int take_number(Reader& in, std::uint64_t bound, const char* what) {
  return static_cast<int>(in.below(bound, what));
}

}  // namespace

void put(Writer& out, const RankPlacement& placement) {
  for (const int number : {placement.size, placement.rank, placement.local_size, placement.local_rank,
                           placement.cross_size, placement.cross_rank, placement.host})
    put(out, number);
}

RankPlacement take_placement(Reader& in) {
  const auto below = [&](auto bound, const char* what) {
    return take_number(in, static_cast<std::uint64_t>(bound), what);
  };
  RankPlacement placement;
  placement.size = take_number(in, kMostRanks, "a number of ranks");
  placement.rank = below(placement.size, "a rank");
  placement.local_size = below(placement.size + 1, "a number of ranks of a host");
  placement.local_rank = below(placement.local_size, "a rank of a host");
  placement.cross_size = below(placement.size + 1, "a number of hosts");
  placement.cross_rank = below(placement.cross_size, "a host");
  placement.host = below(kMostRanks, "a host");
  return placement;
}

RendezvousPoint rendezvous_at(const Ready& first, const std::string& host) {
  std::vector<std::string> all = first.addresses;
  const std::string name = host.substr(host.find('@') + 1);
  if (!name.empty() && std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  RendezvousPoint rendezvous;
  for (const auto& address : all)
    rendezvous.coordinator += (rendezvous.coordinator.empty() ? "" : ",") + with_number(address, first.port);
  rendezvous.master_address = all.empty() ? "" : all.front();
  rendezvous.master_port = first.master_port;
  return rendezvous;
}

Bytes encode(const HostPlan& plan) {
  Writer out;
  put(out, plan.command);
  put(out, plan.environment);
  out.string(plan.directory).string(plan.horovod_folder).string(plan.network);
  out.raw(std::as_bytes(std::span(plan.secret)));
  put(out, static_cast<int>(plan.placements.size()));
  for (const auto& placement : plan.placements) put(out, placement);
  put(out, plan.slots);
  out.u8(static_cast<std::uint8_t>(plan.bind_to));
  for (const bool yes : {plan.alone, plan.terminal, plan.elastic}) out.u8(yes ? 1 : 0);
  out.u8(static_cast<std::uint8_t>(plan.input));
  put(out, plan.reader - kEveryRank);
  put(out, plan.window.rows);
  put(out, plan.window.columns);
  return out.take();
}

HostPlan decode_plan(std::span<const std::byte> bytes) {
  constexpr std::size_t kPlacementNumbers = 7;
  Reader in(bytes);
  HostPlan plan;
  plan.command = take_words(in);
  plan.environment = take_words(in);
  plan.directory = in.string(kLongestWord);
  plan.horovod_folder = in.string(kLongestWord);
  plan.network = in.string(kLongestWord);
  const auto secret = in.raw(plan.secret.size());
  std::transform(secret.begin(), secret.end(), plan.secret.begin(),
                 [](std::byte byte) { return static_cast<unsigned char>(byte); });
  plan.placements.resize(in.count(kPlacementNumbers, "ranks"));
  for (auto& placement : plan.placements) placement = take_placement(in);
  plan.slots = take_number(in, kMostRanks, "a number of ranks of a host");
  plan.bind_to = in.enumerator<BindTo>(kBindTos, "what ranks are bound to");
  plan.alone = in.boolean();
  plan.terminal = in.boolean();
  plan.elastic = in.boolean();
  plan.input = in.enumerator<InputKind>(kInputKinds, "what ranks read");
  plan.reader = take_number(in, kMostRanks, "a rank that reads") + kEveryRank;
  plan.window.rows = take_number(in, kMostWindow, "rows of a terminal");
  plan.window.columns = take_number(in, kMostWindow, "columns of a terminal");
  in.finish();
  if (plan.command.empty() || (plan.placements.empty() && !plan.elastic))
    throw Error(Code::internal, "a plan without a program or without ranks");
  return plan;
}

Bytes encode(const Ready& ready) {
  Writer out;
  put(out, ready.addresses);
  put(out, ready.port);
  put(out, ready.master_port);
  put(out, ready.bindings);
  out.string(ready.unbound);
  return out.take();
}

Ready decode_ready(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Ready ready;
  ready.addresses = take_words(in);
  ready.port = take_number(in, kMostPort, "a port");
  ready.master_port = take_number(in, kMostPort, "a port");
  ready.bindings = take_words(in);
  ready.unbound = in.string(kLongestWord);
  in.finish();
  return ready;
}

Bytes encode(const RendezvousPoint& rendezvous) {
  Writer out;
  out.string(rendezvous.coordinator).string(rendezvous.master_address);
  put(out, rendezvous.master_port);
  return out.take();
}

RendezvousPoint decode_rendezvous(std::span<const std::byte> bytes) {
  Reader in(bytes);
  RendezvousPoint rendezvous;
  rendezvous.coordinator = in.string(kLongestWord);
  rendezvous.master_address = in.string(kLongestWord);
  rendezvous.master_port = take_number(in, kMostPort, "a port");
  in.finish();
  return rendezvous;
}

}  // namespace hora::hrun
