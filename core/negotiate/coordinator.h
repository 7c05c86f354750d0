// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"
#include "core/negotiate/schedule.h"

#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// Rank 0's memory of who has asked for what. Ballots go in, verdicts come out; it does no I/O and reads no
/// clock.
///
/// A tensor is decided once every rank has asked for it, in the order in which that came true. A tensor that
/// a leaving rank never asked for fails for those that did. When all have left, the verdict ends the job.
///
/// A rank may repeat a decision by number. It may also do so when it has not heard yet that the number is
/// forgotten; so what led to a decision is remembered until every rank has heard the verdict that forgot it.
/// *Engine only.*
class Coordinator {
 public:
  explicit Coordinator(int size, std::size_t capacity = 8192);

  /// Takes what a rank asks. Throws Error(internal) if no rank that follows the protocol would send it.
  void add(int rank, const Ballot& ballot, TimePoint now);
  /// What has become decidable since the last call; nothing if there is nothing to say.
  std::optional<Verdict> decide();

  /// A tensor that some ranks have asked for and others have not. A value.
  struct Waiting {
    std::string name;
    TimePoint since;
    std::vector<int> asked;
    std::vector<int> missing;
  };
  /// Those asked for at or before `since`, the oldest first.
  [[nodiscard]] std::vector<Waiting> waiting(TimePoint since) const;
  /// When the one that has waited longest was first asked for; TimePoint::max() if none waits.
  [[nodiscard]] TimePoint oldest() const;

 private:
  /// What the ranks have asked for under one name: by number or in full.
  struct Pending {
    std::vector<DecisionId> repeats;            // by rank; 0: not by number
    std::unordered_map<int, Request> requests;  // by rank
    int asked = 0;
    TimePoint since;
    std::list<std::string>::iterator age;
    [[nodiscard]] bool has_asked(int rank) const {
      return repeats[static_cast<std::size_t>(rank)] != 0 || requests.contains(rank);
    }
  };
  /// What led to a decision: one request if all ranks' were equal, else each rank's.
  using Remembered = std::vector<Request>;

  Pending& pending(const std::string& name, TimePoint now);
  void count(const std::string& name, Pending& pending);
  void leave(int rank);
  bool fail_if_left(const std::string& name, const Pending& pending);
  const Request& asked_by(const Pending& pending, int rank) const;
  Verdict::Item decide(const std::string& name);
  Verdict::Item decide_anew(const Pending& pending);
  void forget_what_all_have_heard();
  /// Turns what pending tensors have asked for by this number into full requests: the number is about to go.
  void spell_out(DecisionId id);

  int size_;
  Schedule schedule_;
  std::unordered_map<DecisionId, Remembered> remembered_;
  std::deque<std::pair<std::uint64_t, DecisionId>> forgotten_;  // by the verdict that forgot it
  std::vector<std::uint64_t> heard_;                            // by rank
  std::uint64_t verdicts_ = 0;

  std::unordered_map<std::string, Pending> pending_;
  std::list<std::string> ages_;  // names in the order in which they were first asked for
  std::vector<std::string> ready_;
  std::vector<Decision> failed_;

  std::vector<bool> left_;  // by rank
  int leaving_ = 0;
  bool ended_ = false;
};

}  // namespace hora
