// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/membership_source.h"
#include "test/support/tcp_ranks.h"

#include <deque>
#include <utility>
#include <vector>

namespace hora {

/// A source that gives the memberships of a list, one after the other.
class ListedMemberships final : public MembershipSource {
 public:
  explicit ListedMemberships(std::deque<Membership> all) : all_(std::move(all)) {}

  Membership next(TimePoint) override {
    if (all_.empty()) throw Error(Code::invalid_argument, "the list of memberships has ended");
    Membership first = std::move(all_.front());
    all_.pop_front();
    return first;
  }
  [[nodiscard]] bool has_more() const override { return !all_.empty(); }

 private:
  std::deque<Membership> all_;
};

/// The memberships of processes whose generations have these members: for each generation the processes in
/// the order of their ranks. Result: for each process those that it is in, as a launcher would give them. All
/// are on this host.
inline std::vector<std::deque<Membership>> memberships_of(int processes,
                                                          const std::vector<std::vector<int>>& generations) {
  std::vector<std::deque<Membership>> all(static_cast<std::size_t>(processes));
  for (std::size_t generation = 0; generation < generations.size(); ++generation) {
    const auto& order = generations[generation];
    const auto configs = loopback_configs(static_cast<int>(order.size()));
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      Membership membership = membership_of(configs[rank]);
      membership.generation = generation;
      all[static_cast<std::size_t>(order[rank])].push_back(std::move(membership));
    }
  }
  return all;
}

}  // namespace hora
