// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/find_membership.h"
#include "core/runtime/formation.h"
#include "core/runtime/generations.h"
#include "test/support/tcp_ranks.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hora {

/// The generations of a list of memberships, one after the other. `connect` makes their worlds.
class ListedGenerations final : public Generations {
 public:
  ListedGenerations(const Config& settings, std::deque<Membership> all, Formation::Connect connect)
      : settings_(settings), all_(std::move(all)), connect_(std::move(connect)) {}

  void on_stop(Stop) override {}
  void await_next(TimePoint deadline) override {
    if (all_.empty()) throw Error(Code::invalid_argument, "the list of memberships has ended");
    const Membership membership = std::move(all_.front());
    all_.pop_front();
    Generation next{{}, settings_};
    next.world = connect_(membership, next.config, deadline, memory_);
    memory_ = next.world.host_memory;
    next_ = std::move(next);
  }
  std::optional<Generation> take_next() override { return std::exchange(next_, std::nullopt); }
  [[nodiscard]] bool has_more() const override { return !all_.empty(); }
  [[nodiscard]] bool change_is_due() const override { return false; }
  void ask_to_leave() override {}
  [[nodiscard]] bool has_left() const override { return false; }
  void session_ended() override {}
  void close() override {}
  void finish(bool) override {}

 private:
  const Config settings_;
  std::deque<Membership> all_;
  const Formation::Connect connect_;
  std::optional<Generation> next_;
  std::shared_ptr<HostMemory> memory_;
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
