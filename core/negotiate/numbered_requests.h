// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/agreement.h"
#include "core/negotiate/asking.h"
#include "core/negotiate/schedule.h"

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hora {

/// The response cache of one group on rank 0: the requests that led to each numbered decision. It turns a
/// request by number back into the full requests of the members. Members are named by their places. Each
/// Coordinator has one.
///
/// A member may ask by a forgotten number until it has heard the verdict that forgot that number. So the
/// requests of a forgotten decision are kept until every member has heard that verdict. *Engine only.*
class NumberedRequests {
 public:
  NumberedRequests(RankSet everybody, std::size_t capacity);

  /// Gives the decision a number, if it may be repeated (Schedule::keeps). `voices`: the requests that led to
  /// the decision.
  void learn(const Decision& decision, std::vector<Voice> voices);
  /// Notes that the known decision of this number is made again. Returns how many times it has been made,
  /// together with earlier decisions of the same name.
  std::uint64_t repeat(DecisionId id);
  /// All decisions that may be made again by number.
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  [[nodiscard]] bool knows(DecisionId id) const { return schedule_.knows(id); }

  /// The name that a request by this number stands for; null if the requests of this number are not kept.
  [[nodiscard]] const std::string* name_of(DecisionId id) const;
  /// One of the requests that led to the decision of this number.
  [[nodiscard]] const Request& any_request(DecisionId id) const;
  /// The request of one of the members that `asking` speaks for.
  [[nodiscard]] const Request& any_request(const Asking& asking) const;
  /// The full requests of all members that ask, ordered by the lowest place of each.
  [[nodiscard]] std::vector<Voice> voices(const std::vector<Asking>& askings) const;
  /// The number of the training step in which these members ask, as in WaitingTensor::step.
  [[nodiscard]] std::uint64_t step_of(const std::vector<Asking>& askings) const;
  /// Returns the same askings, with full requests instead of requests by the number `id`.
  [[nodiscard]] std::vector<Asking> spell_out(std::vector<Asking> askings, DecisionId id) const;

  /// How many verdicts have been sent to all members.
  [[nodiscard]] std::uint64_t verdicts() const { return verdicts_; }
  /// Counts a verdict, which is sent to all members.
  void count_verdict() { ++verdicts_; }
  /// Notes that these members have heard at least `heard` verdicts.
  void note_heard(const RankSet& places, std::uint64_t heard);
  /// Drops the requests of each forgotten decision, once all members have heard the verdict that forgot it.
  /// Calls `before(id)` first, so the caller can replace the number where it has kept it.
  template <typename Before>
  void drop_forgotten(const Before& before) {
    if (forgotten_.empty()) return;
    const std::uint64_t heard = heard_by_all();
    for (; !forgotten_.empty() && forgotten_.front().first <= heard; forgotten_.pop_front()) {
      before(forgotten_.front().second);
      remembered_.erase(forgotten_.front().second);
    }
  }

 private:
  /// The requests that led to a decision.
  struct Remembered {
    std::vector<Voice> voices;  // with the name under which members ask again
    std::uint64_t times = 1;    // that it was made, with earlier decisions of the same name
    void rename();
  };
  [[nodiscard]] std::uint64_t heard_by_all() const;
  void spell(const Asking& asking, std::vector<Voice>& voices) const;

  RankSet everybody_;
  Schedule schedule_;
  std::unordered_map<DecisionId, Remembered> remembered_;
  std::deque<std::pair<std::uint64_t, DecisionId>> forgotten_;  // and the verdict that forgot each
  std::vector<std::uint64_t> heard_;  // how many verdicts each member has heard, by place
  std::uint64_t verdicts_ = 0;
};

}  // namespace hora
