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

/// Rank 0's side of the response cache of one group: the requests that led to each numbered decision. It
/// turns a request by number back into the full requests of the members. Members are called by their places.
///
/// A member may ask by a number that is forgotten, until it has heard the verdict that forgot it. So the
/// requests of a forgotten decision are kept until every member has heard that verdict. *Engine only.*
class NumberedRequests {
 public:
  NumberedRequests(RankSet everybody, std::size_t capacity);

  /// Gives the decision a number, if it is one that may be repeated (Schedule::keeps). `voices`: the requests
  /// that led to it.
  void learn(const Decision& decision, std::vector<Voice> voices);
  /// The known decision of this number is made again. Returns how many times it has been made, together with
  /// earlier decisions under the same name.
  std::uint64_t repeat(DecisionId id);
  /// All decisions that may be made again by number.
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  [[nodiscard]] bool knows(DecisionId id) const { return schedule_.knows(id); }

  /// The name under which this number asks; null if its requests are not known (any more).
  [[nodiscard]] const std::string* name_of(DecisionId id) const;
  /// One of the requests that led to the decision of this number.
  [[nodiscard]] const Request& any_request(DecisionId id) const;
  /// The request of one of the members that ask.
  [[nodiscard]] const Request& any_request(const Asking& asking) const;
  /// The full requests of all that ask, the voice with the lowest place first.
  [[nodiscard]] std::vector<Voice> voices(const std::vector<Asking>& askings) const;
  /// The number of the step in which these ask, as in WaitingTensor::step.
  [[nodiscard]] std::uint64_t step_of(const std::vector<Asking>& askings) const;
  /// The same askings, but those by number `id` as full requests.
  [[nodiscard]] std::vector<Asking> spell_out(std::vector<Asking> askings, DecisionId id) const;

  /// How many verdicts have gone to all members.
  [[nodiscard]] std::uint64_t verdicts() const { return verdicts_; }
  /// A further verdict goes to all members.
  void count_verdict() { ++verdicts_; }
  /// These members have heard at least so many verdicts.
  void note_heard(const RankSet& places, std::uint64_t heard);
  /// Drops the requests of those decisions whose forgetting all members have heard of. Calls `before(id)` for
  /// each, so that the caller replaces the number wherever it has kept it.
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
    std::vector<Voice> voices;  // by the name under which they ask for it again
    std::uint64_t times = 1;    // that it was made, with those before it of the same name
    void rename();
  };
  [[nodiscard]] std::uint64_t heard_by_all() const;
  void spell(const Asking& asking, std::vector<Voice>& voices) const;

  RankSet everybody_;
  Schedule schedule_;
  std::unordered_map<DecisionId, Remembered> remembered_;
  std::deque<std::pair<std::uint64_t, DecisionId>> forgotten_;  // by the verdict that forgot it
  std::vector<std::uint64_t> heard_;                            // verdicts, by place
  std::uint64_t verdicts_ = 0;
};

}  // namespace hora
