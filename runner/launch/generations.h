// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/leader.h"
#include "core/elastic/message.h"
#include "runner/launch/change_report.h"
#include "runner/launch/elastic_processes.h"
#include "runner/launch/placement.h"
#include "runner/launch/process.h"
#include "runner/launch/vacancies.h"

#include <hora/config.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora::hrun {

/// The exit codes of an elastic job that its Leader has ended.
inline constexpr int kStateLost = 74;
inline constexpr int kPausedTooLong = 75;

/// The rules of an elastic job. A value.
struct GenerationPolicy {
  elastic::ElasticPolicy members;
  ReplacementPolicy replacement;
  std::optional<std::uint64_t> reset_limit{};  ///< --reset-limit; nothing: its ranks may change without end
};

/// The facts that Generations asks for when it needs them. A value.
struct GenerationFacts {
  std::function<std::string(int rank)> process;                ///< "(pid 4711 on node7)"
  std::function<std::string(int host, int port)> coordinator;  ///< the addresses of a host, with this port
  std::function<Secret()> secret;                              ///< a new one at each call
};

/// The results of an event of an elastic job: the caller carries them out. A value.
struct GenerationOrders {
  struct Message {
    int rank = 0;
    elastic::LeaderMessage message;
  };
  struct Start {
    int rank = 0;
    elastic::MemberId member = 0;
  };
  struct End {
    int status = 0;  ///< the exit code for hrun; 0: that of the first rank that failed
    std::string why;
  };
  std::vector<Message> messages;     ///< to send
  std::vector<int> kills;            ///< ranks to kill
  std::vector<Start> starts;         ///< ranks for which another process is to be started
  std::vector<std::string> lines;    ///< to print, each a sentence without its full stop
  std::vector<std::string> details;  ///< to print with --verbose
  bool goes_on = false;              ///< of an end: the job goes on without this rank or host
  bool formed = false;               ///< the members of a new generation are connected
  std::optional<End> end{};          ///< the job cannot go on
};

/// The ranks that an elastic job has lost.
class LostRanks {
 public:
  LostRanks(int of, TimePoint start) : of_(of), start_(start) {}
  void add(int rank, std::uint64_t generation, TimePoint when);
  /// Another process has joined as this rank.
  void replace(int rank);
  /// How many processes were lost, and how many of these were replaced.
  [[nodiscard]] int count() const { return static_cast<int>(losses_.size()); }
  [[nodiscard]] int replaced() const { return replaced_; }
  /// Those that were not replaced.
  [[nodiscard]] const std::set<int>& ranks() const { return missing_; }
  /// "1 of 4 ranks was lost: rank 2 after 63.2 s (generation 1)"; empty: none was.
  [[nodiscard]] std::string describe() const;

 private:
  struct Loss {
    int rank = 0;
    std::uint64_t generation = 0;
    TimePoint when{};
  };
  int of_;
  TimePoint start_;
  std::vector<Loss> losses_;
  std::set<int> missing_;
  int replaced_ = 0;
};

/// The part of hrun in the changes of generations of an elastic job (core/elastic/README.md). It asks the
/// Leader, knows which rank is which member, and adds to the messages the facts that the Leader does not
/// know. It has no sockets and no clock. Not thread-safe.
///
/// A rank keeps the number that it has at the start, in calls, in `lines` and in the output of hrun. A
/// process that replaces another one gets its number. Messages to members name ranks by their numbers in the
/// generation that ends.
class Generations {
 public:
  /// `shares`: the ranks that are started. `start`: when.
  Generations(const std::vector<HostShare>& shares, const GenerationPolicy& policy, GenerationFacts facts,
              TimePoint start);

  // Events, in the order in which hrun hears of them.

  [[nodiscard]] GenerationOrders hear(int rank, const elastic::MemberMessage& message, TimePoint now);
  /// The process of a rank has ended, and all its messages were heard. `common`: most ranks have ended with
  /// the same error. `when`: when that was noticed.
  [[nodiscard]] GenerationOrders ended(int rank, const Ending& ending, bool common, TimePoint when,
                                       TimePoint now);
  /// `why`: "host b is lost: no answer".
  [[nodiscard]] GenerationOrders lose_host(int host, const std::string& why, TimePoint now);
  void stopped(int rank, TimePoint now) { leader_.stop(processes_.at(rank).info.id, now); }
  void resumed(int rank, TimePoint now) { leader_.resume(processes_.at(rank).info.id, now); }
  [[nodiscard]] GenerationOrders tick(TimePoint now);
  /// hrun has told all ranks to end. Ends are no losses from here on.
  void expect_ends() { ends_expected_ = true; }

  /// The time of the next `tick`. A `tick` that comes a second late, because hrun stood still itself, takes
  /// nobody for silent: the next one comes when there was time to hear the messages that wait.
  [[nodiscard]] TimePoint next() const {
    const TimePoint next_start = is_ending() ? TimePoint::max() : vacancies_.next();
    return std::max(std::min(leader_.next(), next_start), catching_up_);
  }

  /// How a rank has ended, for the user: also why, if it was killed because the Leader asked for it.
  [[nodiscard]] std::string how(int rank, const Ending& ending) const {
    return processes_.at(rank).how(ending);
  }
  /// The last generation; 0: there was none.
  [[nodiscard]] std::uint64_t generation() const { return begun_; }
  [[nodiscard]] const LostRanks& lost() const { return lost_; }
  [[nodiscard]] const elastic::GenerationRecord& record() const { return leader_.record(); }
  /// The last change that is over; nothing: there was none.
  [[nodiscard]] const std::optional<ChangeReport>& last_change() const { return last_change_; }

 private:
  /// The reason why members are told to stop.
  struct Cause {
    elastic::MemberId lost = 0;
    std::string why;
  };
  [[nodiscard]] bool is_member(const ElasticProcess& process) const {
    return leader_.record().rank_of(process.info.id) >= 0;
  }
  [[nodiscard]] bool is_ending() const {
    return finished_ || ends_expected_ || leader_.phase() == elastic::Leader::Phase::over;
  }
  [[nodiscard]] std::string name(int rank) const;
  [[nodiscard]] std::string name_in_generation(int rank) const;
  [[nodiscard]] Cause cause_of(int rank, const elastic::MemberMessage& message) const;
  ChangeReport& change(const Cause& cause, TimePoint when);
  GenerationOrders carry_out(const elastic::Leader::Actions& actions, const Cause& cause, TimePoint when,
                             TimePoint now);
  void send(const elastic::LeaderAction& action, const Cause& cause, GenerationOrders& orders);
  void leave_out(const elastic::LeaderAction& action);
  void begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders);
  void end_if_it_changes_too_often(GenerationOrders& orders);
  void make_vacant(int rank, TimePoint now, GenerationOrders& orders);
  void replace(TimePoint now, GenerationOrders& orders);
  void formed(TimePoint now, GenerationOrders& orders);
  void begin_with_those_left(const Cause& cause, TimePoint now, GenerationOrders& orders);
  void end_if_it_cannot_begin(GenerationOrders& orders) const;
  [[nodiscard]] bool cannot_begin() const;

  const GenerationPolicy policy_;
  const GenerationFacts facts_;
  ElasticProcesses processes_;
  elastic::Leader leader_;
  Vacancies vacancies_;
  LostRanks lost_;
  std::optional<ChangeReport> change_;       // that is under way
  std::optional<ChangeReport> last_change_;  // that is over
  TimePoint catching_up_{};                  // until then no silence counts
  bool ends_expected_ = false;
  bool finished_ = false;    // the training has ended
  std::uint64_t begun_ = 0;  // the last generation of which there was a record
  Secret secret_{};          // of this generation
  std::string coordinator_;  // likewise
};

}  // namespace hora::hrun
