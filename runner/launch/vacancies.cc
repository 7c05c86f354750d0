// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/vacancies.h"

#include <algorithm>
#include <utility>

namespace hora::hrun {
namespace {

constexpr int kFreeOfRank = 1;  // failures after which there is no rest
constexpr int kFreeOfHost = 2;
constexpr int kMostDoublings = 20;

}  // namespace

Vacancies::Vacancies(std::vector<int> hosts, const ReplacementPolicy& policy)
    : hosts_(std::move(hosts)),
      policy_(policy),
      one_host_(
          std::all_of(hosts_.begin(), hosts_.end(), [this](int host) { return host == hosts_.front(); })) {}

std::optional<TimePoint> Vacancies::open(int rank, TimePoint now) {
  const int host = hosts_[static_cast<std::size_t>(rank)];
  Clock::duration rest = add(of_rank_[rank], kFreeOfRank, now);
  if (!one_host_) rest = std::max(rest, add(of_host_[host], kFreeOfHost, now));
  if (replacements_ >= policy_.most) return std::nullopt;
  ++replacements_;
  open_[rank] = now + rest;
  for (auto& [other, at] : open_) {  // the host rests, also for ranks that failed before
    if (!one_host_ && hosts_[static_cast<std::size_t>(other)] == host) at = std::max(at, now + rest);
  }
  return now + rest;
}

void Vacancies::close_host(int host) {
  std::erase_if(open_, [&](const auto& one) { return hosts_[static_cast<std::size_t>(one.first)] == host; });
}

std::vector<int> Vacancies::fill(TimePoint now) {
  std::vector<int> ranks;
  for (const auto& [rank, at] : open_) {
    if (at <= now) ranks.push_back(rank);
  }
  for (const int rank : ranks) open_.erase(rank);
  return ranks;
}

TimePoint Vacancies::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& [rank, at] : open_) next = std::min(next, at);
  return next;
}

Clock::duration Vacancies::add(Failures& failures, int free, TimePoint now) const {
  if (failures.count > 0 && now - failures.last > policy_.longest_rest) failures.count = 0;
  failures.last = now;
  const int resting = ++failures.count - free;
  if (resting <= 0) return {};
  return std::min<Clock::duration>(policy_.longest_rest,
                                   policy_.shortest_rest * (1 << std::min(resting - 1, kMostDoublings)));
}

}  // namespace hora::hrun
