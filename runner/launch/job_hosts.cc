// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/job_hosts.h"

#include "core/base/machine.h"
#include "runner/launch/environment.h"
#include "runner/launch/local_ranks.h"
#include "runner/launch/process.h"
#include "runner/launch/remote_ranks.h"
#include "runner/launch/this_host.h"
#include "runner/streams/standard_input.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace hora::hrun {
namespace {

/// Null: the host is this machine.
const RemoteHost* remote_host(const std::string& host, const Options& options) {
  const auto remote = std::find_if(options.remote_hosts.begin(), options.remote_hosts.end(),
                                   [&](const RemoteHost& one) { return one.host == host; });
  return remote == options.remote_hosts.end() ? nullptr : &*remote;
}

std::unique_ptr<HostRanks> prepare_one(HostPlan plan, const std::string& host, const Options& options,
                                       StandardInput& input) {
  const RemoteHost* remote = remote_host(host, options);
  input.go_into(plan, remote == nullptr);
  if (remote == nullptr) return make_local_ranks(plan);
  plan.environment = without_session(plan.environment, options.environment);
  plan.directory = std::filesystem::current_path().string();
  return make_remote_ranks(*remote, plan, options.start_timeout, Clock::now());
}

}  // namespace

Secret new_secret() {
  Secret secret;
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    fail("no random numbers");
  return secret;
}

HostPlan plan_of(const Options& options) {
  HostPlan plan;
  plan.command = options.command;
  plan.environment = job_environment(own_environment(), options.environment);
  plan.horovod_folder = options.horovod_folder;
  plan.network = options.network;
  plan.bind_to = options.bind_to;
  plan.secret = new_secret();
  plan.alone = options.shares.size() == 1;
  plan.terminal = ::isatty(STDOUT_FILENO) == 1;
  plan.elastic = options.elastic.has_value();
  return plan;
}

JobHosts::~JobHosts() {
  for (const auto& host : hosts_) {
    if (host.ranks) host.ranks->part();
  }
}

void JobHosts::prepare(const HostPlan& plan, const Options& options, StandardInput& input) {
  HostPlan share_plan = plan;
  for (const auto& share : options.shares) {
    share_plan.placements = share.placements;
    JobHost& host = hosts_.emplace_back();
    host.name = share.host;
    if (!plan.alone) host.known_as = remote_host(share.host, options) == nullptr ? host_name() : share.host;
    host.first = share.placements.front().rank;
    host.count = static_cast<int>(share.placements.size());
    host.ranks = prepare_one(share_plan, share.host, options, input);
  }
}

int JobHosts::count(HostRanks::State state) const {
  return static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(),
                                        [&](const JobHost& host) { return host.ranks->state() == state; }));
}

bool JobHosts::all_ready() const {
  using State = HostRanks::State;
  if (count(State::making_ready) > 0) return false;
  if (count(State::failed) == 0) return true;
  std::string text = fmt::format(
      "cannot start ranks on {} of {} hosts, and has started none:", count(State::failed), hosts_.size());
  for (const auto& host : hosts_) {
    if (host.ranks->state() == State::failed)
      text += fmt::format("\n  {}: {}", host.name, host.ranks->trouble());
  }
  throw Error(Code::unavailable, text);
}

void JobHosts::start() {
  const RendezvousPoint rendezvous = rendezvous_at(hosts_.front().ranks->ready(), hosts_.front().known_as);
  for (const auto& host : hosts_) host.ranks->start(rendezvous);
}

bool JobHosts::anybody_left() const { return count(HostRanks::State::running) > 0; }

void JobHosts::send(EndSignal signal) {
  for (const auto& host : hosts_) {
    switch (signal) {
      case EndSignal::none: break;
      case EndSignal::interrupt: host.ranks->interrupt(); break;
      case EndSignal::terminate: host.ranks->terminate(); break;
      case EndSignal::kill: host.ranks->kill(); break;
    }
  }
}

void JobHosts::tell(const RankEnd& end) {
  for (const auto& host : hosts_) host.ranks->tell(end);
}

void JobHosts::ask(const Question& question) {
  for (const auto& host : hosts_) host.ranks->ask(question);
}

void JobHosts::carry_out(const GenerationOrders& orders) {
  for (const auto& [rank, message] : orders.messages) {
    const JobHost& host = host_of(rank);
    host.ranks->send(rank - host.first, message);
  }
  for (const int rank : orders.kills) {
    const JobHost& host = host_of(rank);
    host.ranks->kill_one(rank - host.first);
  }
  for (const auto& [rank, member] : orders.starts) {
    const JobHost& host = host_of(rank);
    host.ranks->start_one(rank - host.first, member);
  }
}

std::string JobHosts::coordinator(int host, int port) const {
  const JobHost& of = hosts_[static_cast<std::size_t>(host)];
  Ready there = of.ranks->ready();
  there.port = port;
  return rendezvous_at(there, of.known_as).coordinator;
}

const JobHost& JobHosts::host_of(int rank) const {
  return *std::find_if(hosts_.begin(), hosts_.end(),
                       [&](const JobHost& host) { return rank < host.first + host.count; });
}

void JobHosts::watch(std::vector<pollfd>& events) const {
  for (const auto& host : hosts_) host.ranks->watch(events);
}

TimePoint JobHosts::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& host : hosts_) next = std::min(next, host.ranks->next());
  return next;
}

void JobHosts::child_changed(int pid, int wait_status, TimePoint now) {
  for (const auto& host : hosts_) host.ranks->child_changed(pid, wait_status, now);
}

}  // namespace hora::hrun
