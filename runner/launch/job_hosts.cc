// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/job_hosts.h"

#include "core/base/machine.h"
#include "core/join/secret.h"
#include "runner/launch/environment.h"
#include "runner/launch/local_ranks.h"
#include "runner/launch/process.h"
#include "runner/launch/remote_ranks.h"
#include "runner/launch/this_host.h"
#include "runner/streams/standard_input.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hora::hrun {
namespace {

/// Whether no rank will be on another host.
bool is_alone(const Options& options) {
  return options.shares.size() == 1 &&
         (!options.elastic || (options.hosts.size() == 1 && !options.discovery));
}

}  // namespace

HostPlan plan_of(const Options& options) {
  HostPlan plan;
  plan.command = options.command;
  plan.environment = job_environment(own_environment(), options.environment);
  plan.horovod_folder = options.horovod_folder;
  plan.network = options.network;
  plan.bind_to = options.bind_to;
  plan.secret = new_secret();
  plan.alone = is_alone(options);
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
  plan_ = plan;
  options_ = &options;
  input_ = &input;
  for (const auto& share : options.shares) {
    const int count = static_cast<int>(share.placements.size());
    add(share.host, options.remote_host(share.host),
        options.elastic ? std::max(count, options.slots_of(share.host)) : count);
    JobHost& host = hosts_.back();
    for (const auto& placement : share.placements) host.numbers.push_back(placement.rank);
    host.ranks = make(host, share.placements, host.slots);
  }
}

void JobHosts::add(const std::string& name, std::optional<RemoteHost> way, int slots) {
  JobHost& host = hosts_.emplace_back();
  host.name = name;
  host.slots = slots;
  if (!plan_.alone) host.known_as = way ? name : host_name();
  host.way = std::move(way);
}

std::unique_ptr<HostRanks> JobHosts::make(const JobHost& host, std::vector<RankPlacement> placements,
                                          int slots) const {
  HostPlan plan = plan_;
  plan.placements = std::move(placements);
  plan.slots = slots;
  input_->go_into(plan, !host.way);
  if (!host.way) return make_local_ranks(plan);
  plan.environment = without_session(plan.environment, options_->environment);
  plan.directory = std::filesystem::current_path().string();
  return make_remote_ranks(*host.way, plan, options_->start_timeout, Clock::now());
}

int JobHosts::count(HostRanks::State state) const {
  return static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(), [&](const JobHost& host) {
    return host.ranks && host.ranks->state() == state;
  }));
}

bool JobHosts::all_ready() const {
  using State = HostRanks::State;
  if (count(State::making_ready) > 0) return false;
  if (count(State::failed) == 0) return true;
  std::string text = fmt::format(
      "cannot start ranks on {} of {} hosts, and has started none:", count(State::failed), hosts_.size());
  for (const auto& host : hosts_) {
    if (host.ranks && host.ranks->state() == State::failed)
      text += fmt::format("\n  {}: {}", host.name, host.ranks->trouble());
  }
  throw Error(Code::unavailable, text);
}

void JobHosts::start() {
  rendezvous_ = rendezvous_at(hosts_.front().ranks->ready(), hosts_.front().known_as);
  for (const auto& host : hosts_) {
    if (host.ranks) host.ranks->start(rendezvous_);
  }
}

bool JobHosts::anybody_left() const { return count(HostRanks::State::running) > 0; }

void JobHosts::send(EndSignal signal) {
  if (signal == EndSignal::none) return;
  for (auto& host : hosts_) {
    host.waiting.clear();
    if (!host.is_connected()) continue;
    switch (signal) {
      case EndSignal::none: break;
      case EndSignal::interrupt: host.ranks->interrupt(); break;
      case EndSignal::terminate: host.ranks->terminate(); break;
      case EndSignal::kill: host.ranks->kill(); break;
    }
  }
}

void JobHosts::tell(const RankEnd& end) {
  for (const auto& host : hosts_) {
    if (host.is_connected()) host.ranks->tell(end);
  }
}

void JobHosts::ask(const Question& question) {
  for (const auto& host : hosts_) {
    if (host.is_connected()) host.ranks->ask(question);
  }
}

void JobHosts::carry_out(const GenerationOrders& orders) {
  for (const auto& [rank, message] : orders.messages) {
    if (JobHost* host = host_of(rank)) host->ranks->send(host->index_of(rank), message);
  }
  for (const int rank : orders.kills) {
    if (JobHost* host = host_of(rank)) {
      host->ranks->kill_one(host->index_of(rank));
    } else {
      for (auto& one : hosts_) one.do_not_want(rank);
    }
  }
  for (const auto& start : orders.starts) {
    JobHost& host = at(start.placement.host);
    if (host.is_connected()) {
      start_here(host, start);
    } else {
      host.waiting.push_back({start});  // `turn` connects it
    }
  }
}

void JobHosts::start_here(JobHost& host, const GenerationOrders::Start& start) {
  const int index = host.index_of(start.placement.rank);
  if (index == static_cast<int>(host.numbers.size())) host.numbers.push_back(start.placement.rank);
  host.ranks->start_one(index, start.placement, start.member);
}

/// Its ranks are started once it is ready.
void JobHosts::connect(JobHost& host) {
  host.connecting = true;
  host.lost = false;
  host.numbers.clear();
  try {
    host.ranks = make(host, {}, std::max(host.slots, static_cast<int>(host.waiting.size())));
  } catch (const Error& error) {
    host.ranks.reset();
    host.trouble = error.what();
  }
}

std::vector<RankEvent> JobHosts::turn(int number, TimePoint now) {
  JobHost& host = at(number);
  std::vector<RankEvent> events;
  if (host.is_to_be_connected()) connect(host);
  if (host.ranks) events = host.ranks->turn(now);
  for (const auto& event : events) {
    if (event.kind == RankEvent::Kind::host_lost) host.lost = true;
  }
  if (!host.connecting) return events;
  const auto state = host.ranks ? host.ranks->state() : HostRanks::State::failed;
  if (state == HostRanks::State::making_ready) return events;
  host.connecting = false;
  if (state == HostRanks::State::ready) {
    host.ranks->start(rendezvous_);
    for (const auto& [start, is_unwanted] : std::exchange(host.waiting, {})) {
      start_here(host, start);
      if (is_unwanted) host.ranks->kill_one(host.index_of(start.placement.rank));
    }
    return events;
  }
  host.lost = true;
  events.push_back({.kind = RankEvent::Kind::host_lost,
                    .ending = {kHostLost, host.ranks ? host.ranks->trouble() : host.trouble, 0},
                    .when = now});
  return events;
}

std::string JobHosts::coordinator(int host, int port) const {
  const JobHost& of = hosts_[static_cast<std::size_t>(host)];
  Ready there = of.ranks->ready();
  there.port = port;
  return rendezvous_at(there, of.known_as).coordinator;
}

JobHost* JobHosts::host_of(int rank) {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const JobHost& host) {
    return host.is_connected() && host.index_of(rank) < static_cast<int>(host.numbers.size());
  });
  return found == hosts_.end() ? nullptr : &*found;
}

void JobHosts::watch(std::vector<pollfd>& events) const {
  for (const auto& host : hosts_) {
    if (host.ranks) host.ranks->watch(events);
  }
}

TimePoint JobHosts::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& host : hosts_) {
    if (host.ranks) next = std::min(next, host.ranks->next());
    const bool connected = !host.ranks || host.ranks->state() != HostRanks::State::making_ready;
    if (host.is_to_be_connected() || (host.connecting && connected)) next = TimePoint::min();
  }
  return next;
}

void JobHosts::child_changed(int pid, int wait_status, TimePoint now) {
  for (const auto& host : hosts_) {
    if (host.ranks) host.ranks->child_changed(pid, wait_status, now);
  }
}

}  // namespace hora::hrun
