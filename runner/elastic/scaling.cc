// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

namespace hora::hrun {
namespace {

/// Adds to `leaving` the last of `staying` that are more than `limit` and for which `may_leave` holds.
void choose_last(std::vector<int> staying, int limit, const std::function<bool(int)>& may_leave,
                 std::set<int>& leaving) {
  int over = static_cast<int>(staying.size()) - limit;
  for (auto rank = staying.rbegin(); rank != staying.rend() && over > 0; ++rank) {
    if (!may_leave(*rank)) continue;
    leaving.insert(*rank);
    --over;
  }
}

}  // namespace

void Scaling::set_size(int size) {
  size_ = size;
  slots_.open_all();
}

void Scaling::set_capacity(int host, int slots) {
  if (host == slots_.hosts()) slots_.add_host(slots);
  slots_.set_capacity(host, slots);
}

std::string Scaling::vacate(int rank, bool as_asked, TimePoint now) {
  if (processes_.at(rank).going) {
    slots_.release(rank);
    return "";
  }
  if (as_asked) {
    slots_.close(rank);
    return "";
  }
  const auto rest = slots_.fail(rank, now);
  if (!rest && policy_.most == 0) return "";  // as the user wants it
  if (!rest) {
    return fmt::format("rank {} is not replaced: there were {} replacements (--max-replacements)", rank,
                       policy_.most);
  }
  if (rest->until <= now) return "";
  const double seconds = std::chrono::duration<double>(rest->until - now).count();
  if (rest->of_host) {
    return fmt::format(
        "the host of rank {0} fails again and again: the next process of rank {0} is started in {1:.3g} s",
        rank, seconds);
  }
  return fmt::format("rank {} fails again and again: its next process is started in {:.3g} s", rank, seconds);
}

TimePoint Scaling::lose_host(int host, const std::vector<int>& ranks, TimePoint now) {
  for (const int rank : ranks) {
    if (processes_.at(rank).counts()) {
      slots_.replace(rank);
    } else {
      slots_.release(rank);
    }
  }
  return slots_.lose_host(host, now);
}

std::vector<int> Scaling::surplus() const {
  std::set<int> leaving;
  for (const int rank : slots_.surplus()) {
    if (processes_.at(rank).stays()) leaving.insert(rank);
  }
  const auto staying = [&](bool members) {
    std::vector<int> ranks;
    for (int rank = 0; rank < processes_.size(); ++rank) {
      const ElasticProcess& process = processes_.at(rank);
      if (process.stays() && !leaving.contains(rank) && (process.is_member || !members))
        ranks.push_back(rank);
    }
    return ranks;
  };
  const auto no_member = [&](int rank) { return !processes_.at(rank).is_member; };
  choose_last(staying(true), size_, [](int) { return true; }, leaving);
  choose_last(staying(false), size_ + spares_, no_member, leaving);
  return {leaving.begin(), leaving.end()};
}

std::vector<RankPlacement> Scaling::take(TimePoint now) {
  return missing() > 0 ? slots_.take(missing(), now) : std::vector<RankPlacement>{};
}

}  // namespace hora::hrun
