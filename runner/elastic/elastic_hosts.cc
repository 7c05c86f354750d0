// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/elastic_hosts.h"

#include "runner/launch/job_hosts.h"
#include "runner/launch/job_ranks.h"
#include "runner/launch/this_host.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace hora::hrun {
namespace {

constexpr std::chrono::milliseconds kLookForNames{20};

}  // namespace

ElasticHosts::ElasticHosts(const Options& options, JobHosts& hosts, JobRanks& ranks)
    : options_(options), job_hosts_(hosts), ranks_(ranks) {
  for (int number = 0; number < hosts.size(); ++number) {
    const JobHost& host = hosts.at(number);
    hosts_.push_back({host.name, host.slots, !host.way, false});
  }
  for (const auto& slots : options.hosts) {
    if (find(slots.host) == nullptr) add(slots, !options.remote_host(slots.host));
  }
}

std::vector<int> ElasticHosts::capacities() const {
  std::vector<int> slots;
  for (const auto& host : hosts_) slots.push_back(host.capacity);
  return slots;
}

void ElasticHosts::begin(Generations& generations, TimePoint now) {
  generations_ = &generations;
  if (options_.discovery) discovery_.emplace(*options_.discovery, now);
}

void ElasticHosts::watch(std::vector<pollfd>& events) const {
  if (discovery_) discovery_->watch(events);
}

TimePoint ElasticHosts::next() const {
  if (new_list_) return Clock::now() + kLookForNames;
  return discovery_ ? discovery_->next() : TimePoint::max();
}

void ElasticHosts::child_changed(int pid, int wait_status) {
  if (discovery_) discovery_->child_changed(pid, wait_status);
}

GenerationOrders ElasticHosts::turn(TimePoint now) {
  GenerationOrders orders;
  if (!new_list_ && discovery_) {
    if (auto run = discovery_->turn(now)) read(std::move(*run), now, orders);
  }
  if (!new_list_ || new_list_->are_here.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return orders;
  NewList list = std::exchange(new_list_, std::nullopt).value();
  const std::vector<bool> are_here = list.are_here.get();
  take(list, are_here, now, orders);
  return orders;
}

ElasticHosts::Obeyed ElasticHosts::obey(const JobCommand& command, TimePoint now) {
  if (command.kind == JobCommand::Kind::drain) {
    return {drain(command.host, now),
            fmt::format("the ranks of host {} leave before the next step", command.host)};
  }
  const elastic::GenerationRecord before = generations_->record();
  const auto training = before.members.size() - static_cast<std::size_t>(before.hot_spares);
  GenerationOrders orders = generations_->resize(command.ranks, now);
  const int slots = generations_->capacity();
  return {std::move(orders),
          fmt::format("the job has {} ranks, and is to have {}{}", training, command.ranks,
                      slots < command.ranks ? fmt::format("; its hosts have {} slots now", slots) : "")};
}

GenerationOrders ElasticHosts::drain(const std::string& name, TimePoint now) {
  Host* host = find(name);
  if (host == nullptr) {
    std::vector<std::string> names;
    for (const auto& one : hosts_) names.push_back(one.name);
    throw Error(Code::invalid_argument,
                fmt::format("the job has no host {}; it has {}", name, fmt::join(names, ", ")));
  }
  generations_->require_change();
  if (!goes_on_elsewhere([&](const Host& one) { return &one != host && one.capacity > 0; })) {
    throw Error(
        Code::invalid_argument,
        fmt::format("without host {} no rank would be left that has the state of the training", name));
  }
  host->drained = true;
  GenerationOrders orders;
  set_capacity(*host, 0, now, orders);
  return orders;
}

/// Whether a member stays that is on one of the hosts that are kept.
bool ElasticHosts::goes_on_elsewhere(const std::function<bool(const Host&)>& is_kept) const {
  std::set<int> kept;
  for (const auto& host : hosts_) {
    if (is_kept(host)) kept.insert(number_of(host));
  }
  return generations_->any_stays_on(kept);
}

ElasticHosts::Host* ElasticHosts::find(const std::string& name) {
  const auto found =
      std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& one) { return one.name == name; });
  return found == hosts_.end() ? nullptr : &*found;
}

void ElasticHosts::add(const HostSlots& slots, bool is_here) {
  std::optional<RemoteHost> way;
  if (!is_here) way = options_.way_to(slots.host);
  hosts_.push_back({slots.host, slots.slots, is_here, false});
  job_hosts_.add(slots.host, std::move(way), slots.slots);
  ranks_.add_host(slots.host);
}

/// The hosts stay as they were if the script has failed.
void ElasticHosts::read(DiscoveryRun run, TimePoint now, GenerationOrders& orders) {
  if (run.trouble.empty() && !keeps_a_member(run.hosts)) {
    run.trouble = fmt::format(
        "the host discovery script '{}' has printed none of the hosts whose ranks have the "
        "state of the training",
        options_.discovery->script);
  }
  if (!run.trouble.empty() && run.trouble != said_)
    orders.lines.push_back(fmt::format("{}; the hosts stay as they were", run.trouble));
  said_ = run.trouble;
  if (!run.trouble.empty()) return;
  NewList list{.hosts = std::move(run.hosts), .names = {}, .are_here = {}};
  for (const auto& host : list.hosts) {
    if (find(host.host) == nullptr && !refused_.contains(host.host)) list.names.push_back(host.host);
  }
  if (list.names.empty()) return take(list, {}, now, orders);
  try {
    list.are_here = std::async(std::launch::async, are_this_host, list.names);
  } catch (const std::system_error&) {  // there are too many threads: the next run of the script comes soon
    return;
  }
  new_list_ = std::move(list);
}

/// Whether a member stays when the hosts are these. Before there are members nobody has to.
bool ElasticHosts::keeps_a_member(const std::vector<HostSlots>& listed) const {
  if (generations_->generation() == 0) return true;
  return goes_on_elsewhere([&](const Host& host) {
    return !host.drained && std::any_of(listed.begin(), listed.end(),
                                        [&](const HostSlots& one) { return one.host == host.name; });
  });
}

void ElasticHosts::take(const NewList& list, const std::vector<bool>& are_here, TimePoint now,
                        GenerationOrders& orders) {
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    const auto own = std::find_if(hosts_.begin(), hosts_.end(), [](const Host& one) { return one.is_here; });
    if (are_here[i] && own != hosts_.end()) {
      refused_.insert(list.names[i]);
      orders.lines.push_back(fmt::format("hosts {} and {} are both this machine; the job uses the first",
                                         own->name, list.names[i]));
      continue;
    }
    try {
      add({list.names[i], 0}, are_here[i]);
    } catch (const Error& error) {
      refused_.insert(list.names[i]);
      orders.lines.push_back(fmt::format("host {} cannot be used: {}", list.names[i], error.what()));
    }
  }
  for (auto& host : hosts_) {
    const auto listed = std::find_if(list.hosts.begin(), list.hosts.end(),
                                     [&](const HostSlots& one) { return one.host == host.name; });
    set_capacity(host, listed == list.hosts.end() || host.drained ? 0 : listed->slots, now, orders);
  }
}

void ElasticHosts::set_capacity(Host& host, int slots, TimePoint now, GenerationOrders& orders) {
  if (std::exchange(host.capacity, slots) != slots) {
    const char* why = host.drained ? "is drained" : "is not listed any more";
    orders.lines.push_back(
        slots == 0 ? fmt::format("host {} {}: its ranks leave", host.name, why)
                   : fmt::format("host {} has {} slot{}", host.name, slots, slots == 1 ? "" : "s"));
  }
  job_hosts_.at(number_of(host)).slots = slots;
  orders.add(generations_->set_capacity(number_of(host), slots, now));
}

}  // namespace hora::hrun
