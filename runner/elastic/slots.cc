// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/slots.h"

#include <algorithm>
#include <numeric>

namespace hora::hrun {
namespace {

constexpr int kFreeOfRank = 1;  // failures after which there is no rest
constexpr int kFreeOfHost = 2;
constexpr int kMostDoublings = 20;

}  // namespace

Slots::Slots(const std::vector<HostShare>& shares, const std::vector<int>& capacities,
             const ReplacementPolicy& policy)
    : policy_(policy) {
  for (const int capacity : capacities) add_host(capacity);
  for (const auto& share : shares) {
    for (const auto& placement : share.placements) {
      slots_.push_back({.placement = placement});
      ++at(placement.host).slots;
    }
  }
}

int Slots::add_host(int capacity) {
  hosts_.push_back({.capacity = capacity});
  return hosts() - 1;
}

std::vector<int> Slots::surplus() const {
  std::vector<int> ranks;
  for (const auto& slot : slots_) {
    if (slot.taken && slot.placement.local_rank >= at(slot.placement.host).capacity)
      ranks.push_back(slot.placement.rank);
  }
  return ranks;
}

std::optional<Slots::Rest> Slots::fail(int rank, TimePoint now) {
  Slot& slot = of(rank);
  Host& host = at(slot.placement.host);
  slot.taken = false;
  add(slot.failures, kFreeOfRank, now);
  if (hosts() > 1) add(host.failures, kFreeOfHost, now);
  if (count_replacement())
    return Rest{rests_until(slot), host.failures.rests_until > slot.failures.rests_until};
  close(rank);
  return std::nullopt;
}

void Slots::close(int rank) {
  of(rank).taken = false;
  of(rank).closed = true;
}

void Slots::replace(int rank) {
  of(rank).taken = false;
  if (!count_replacement()) close(rank);
}

TimePoint Slots::lose_host(int host, TimePoint now) {
  add(at(host).failures, 0, now);
  return at(host).failures.rests_until;
}

void Slots::open_all() {
  for (auto& slot : slots_) slot.closed = false;
}

int Slots::closed() const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(), [this](const Slot& slot) {
    return slot.closed && slot.placement.local_rank < at(slot.placement.host).capacity;
  }));
}

int Slots::capacity() const {
  return std::accumulate(hosts_.begin(), hosts_.end(), 0,
                         [](int sum, const Host& host) { return sum + host.capacity; });
}

std::vector<RankPlacement> Slots::take(int count, TimePoint now) {
  std::vector<RankPlacement> taken;
  const auto more = [&] { return static_cast<int>(taken.size()) < count; };
  for (auto& slot : slots_) {
    if (!more() || !is_free(slot) || rests_until(slot) > now) continue;
    slot.taken = true;
    taken.push_back(slot.placement);
  }
  for (int host = 0; host < hosts(); ++host) {
    while (more() && at(host).slots < at(host).capacity && at(host).failures.rests_until <= now)
      taken.push_back(make_slot(host));
  }
  return taken;
}

TimePoint Slots::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& slot : slots_) {
    if (is_free(slot)) next = std::min(next, rests_until(slot));
  }
  for (const auto& host : hosts_) {
    if (host.slots < host.capacity) next = std::min(next, host.failures.rests_until);
  }
  return next;
}

void Slots::add(Failures& failures, int free, TimePoint now) const {
  if (failures.count > 0 && now - failures.rests_until > policy_.longest_rest) failures.count = 0;
  const int resting = ++failures.count - free;
  const auto rest = policy_.shortest_rest * (1 << std::clamp(resting - 1, 0, kMostDoublings));
  const auto until = resting <= 0 ? now : now + std::min<Clock::duration>(policy_.longest_rest, rest);
  failures.rests_until = std::max(failures.rests_until, until);
}

TimePoint Slots::rests_until(const Slot& slot) const {
  return std::max(slot.failures.rests_until, at(slot.placement.host).failures.rests_until);
}

/// Whether one more process may be replaced.
bool Slots::count_replacement() {
  if (replacements_ >= policy_.most) return false;
  ++replacements_;
  return true;
}

RankPlacement Slots::make_slot(int host) {
  RankPlacement placement;
  placement.rank = static_cast<int>(slots_.size());
  placement.size = placement.rank + 1;
  placement.local_rank = at(host).slots++;
  placement.local_size = at(host).slots;
  placement.host = host;
  slots_.push_back({.placement = placement});
  return placement;
}

}  // namespace hora::hrun
