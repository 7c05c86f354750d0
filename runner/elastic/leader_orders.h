// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/leader.h"
#include "runner/elastic/change_report.h"
#include "runner/elastic/elastic_processes.h"
#include "runner/elastic/generation_orders.h"

#include <hora/config.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// The text that says that ranks come or go without a loss.
inline constexpr const char* kMembersChange = "the members change";

/// The reason why members are told to stop. A value.
struct ChangeCause {
  elastic::MemberId lost = 0;
  std::string why = kMembersChange;
};

/// Makes orders for hrun of the actions of the Leader. It adds to the messages the facts that the Leader does
/// not know, and tells the user of each change. Not thread-safe.
class LeaderOrders {
 public:
  /// Refers to the first two, which outlive it. `start`: of the job.
  LeaderOrders(ElasticProcesses& processes, const elastic::Leader& leader, const GenerationPolicy& policy,
               GenerationFacts facts, TimePoint start)
      : processes_(processes),
        leader_(leader),
        policy_(policy),
        facts_(std::move(facts)),
        lost_(processes.size(), start),
        changes_(start) {}

  /// `when`: when that was noticed because of which the Leader acts.
  GenerationOrders make(const elastic::Leader::Actions& actions, const ChangeCause& cause, TimePoint when,
                        TimePoint now);

  /// The first step of a generation has counted.
  GenerationOrders stepped(std::uint64_t generation, TimePoint now);

  /// "rank 2 (pid 4711)", by the number that the rank has for the user, or in the generation that ends.
  [[nodiscard]] std::string name(int rank) const;
  [[nodiscard]] std::string name_in_generation(int rank) const;
  /// The last generation of which there was a record; 0: none.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }
  [[nodiscard]] Changes& changes() { return changes_; }
  [[nodiscard]] const Changes& changes() const { return changes_; }
  [[nodiscard]] LostRanks& lost() { return lost_; }
  [[nodiscard]] const LostRanks& lost() const { return lost_; }

 private:
  void send(const elastic::LeaderAction& action, const ChangeCause& cause, GenerationOrders& orders);
  void leave_out(const elastic::LeaderAction& action);
  void begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders);
  void end_if_it_changes_too_often(GenerationOrders& orders);
  void formed(TimePoint now, GenerationOrders& orders);

  ElasticProcesses& processes_;
  const elastic::Leader& leader_;
  const GenerationPolicy policy_;
  const GenerationFacts facts_;
  LostRanks lost_;
  Changes changes_;
  std::uint64_t begun_ = 0;
  Secret secret_{};          // of this generation
  std::string coordinator_;  // likewise
};

}  // namespace hora::hrun
