// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/leader.h"
#include "core/elastic/message.h"
#include "runner/launch/placement.h"
#include "runner/launch/process.h"

#include <hora/config.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// The exit codes of an elastic job that its Leader has ended.
inline constexpr int kStateLost = 74;
inline constexpr int kPausedTooLong = 75;

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
  struct End {
    int status = 0;  ///< the exit code for hrun; 0: that of the first rank that failed
    std::string why;
  };
  std::vector<Message> messages;     ///< to send
  std::vector<int> kills;            ///< ranks to kill
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
  /// In the order in which they were lost.
  [[nodiscard]] std::vector<int> ranks() const;
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
};

/// The part of hrun in the changes of generations of an elastic job (core/elastic/README.md). It asks the
/// Leader, knows which rank is which member, and adds to the messages the facts that the Leader does not
/// know. It has no sockets and no clock. Not thread-safe.
///
/// A rank keeps the number that it has at the start, in calls, in `lines` and in the output of hrun. Messages
/// to members name ranks by their numbers in the generation that ends.
class Generations {
 public:
  /// `shares`: the ranks that are started. `start`: when.
  Generations(const std::vector<HostShare>& shares, const elastic::ElasticPolicy& policy,
              GenerationFacts facts, TimePoint start);

  // Events, in the order in which hrun hears of them.

  [[nodiscard]] GenerationOrders hear(int rank, const elastic::MemberMessage& message, TimePoint now);
  /// A rank has ended, and all its messages were heard. `when`: when that was noticed.
  [[nodiscard]] GenerationOrders ended(int rank, const Ending& ending, TimePoint when, TimePoint now);
  /// `why`: "host b is lost: no answer".
  [[nodiscard]] GenerationOrders lose_host(int host, const std::string& why, TimePoint now);
  void stopped(int rank, TimePoint now) { leader_.stop(first_member(rank), now); }
  void resumed(int rank, TimePoint now) { leader_.resume(first_member(rank), now); }
  [[nodiscard]] GenerationOrders tick(TimePoint now);
  /// hrun has told all ranks to end. Ends are no losses from here on.
  void expect_ends() { ends_expected_ = true; }

  /// The time of the next `tick`. A `tick` that comes a second late, because hrun stood still itself, takes
  /// nobody for silent: the next one comes when there was time to hear the messages that wait.
  [[nodiscard]] TimePoint next() const { return std::max(leader_.next(), catching_up_); }

  /// How a rank has ended, for the user: also why, if it was killed because the Leader asked for it.
  [[nodiscard]] std::string how(int rank, const Ending& ending) const;
  /// The last generation; 0: there was none.
  [[nodiscard]] std::uint64_t generation() const { return begun_; }
  [[nodiscard]] const LostRanks& lost() const { return lost_; }

 private:
  struct Process {
    elastic::MemberInfo info;
    std::uint16_t port = 0;  ///< where it listens
    bool joined = false;
    bool finished = false;             ///< it has made the last step
    bool gone = false;                 ///< it has ended, or its host is lost
    std::optional<std::string> out{};  ///< it was told to leave, and why; empty: it had asked for that
    std::string killed{};              ///< why it was killed; empty: it was not

    [[nodiscard]] bool left_in_order() const { return out && out->empty(); }
  };
  /// The reason why members are told to stop.
  struct Cause {
    elastic::MemberId lost = 0;
    std::string why;
  };
  /// A change that is under way.
  struct Change {
    TimePoint noticed;
    TimePoint stopped;                  ///< when all had reported
    std::string why;                    ///< its first cause
    std::vector<std::string> losses{};  ///< for the user; those of which no line was given
  };

  [[nodiscard]] Process& process_of(elastic::MemberId id) { return processes_[rank_of(id)]; }
  [[nodiscard]] static std::size_t rank_of(elastic::MemberId id) { return static_cast<std::size_t>(id - 1); }
  [[nodiscard]] std::string name(int rank) const;
  [[nodiscard]] std::string name_in_generation(int rank) const;
  [[nodiscard]] Cause cause_of(int rank, const elastic::MemberMessage& message) const;
  Change& change(const Cause& cause, TimePoint when);
  void count_loss(int rank, bool ends_well, std::uint64_t generation, TimePoint when);
  GenerationOrders carry_out(const elastic::Leader::Actions& actions, const Cause& cause, TimePoint when,
                             TimePoint now);
  void send(const elastic::LeaderAction& action, const Cause& cause, GenerationOrders& orders);
  void leave_out(const elastic::LeaderAction& action);
  void begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders);
  void formed(TimePoint now, GenerationOrders& orders);
  void end_if_it_cannot_begin(GenerationOrders& orders) const;
  [[nodiscard]] int left() const;
  [[nodiscard]] bool cannot_begin() const;

  const elastic::ElasticPolicy policy_;
  const GenerationFacts facts_;
  elastic::Leader leader_;
  std::vector<Process> processes_;  // by rank
  LostRanks lost_;
  std::optional<Change> change_;
  TimePoint catching_up_{};  // until then no silence counts
  bool ends_expected_ = false;
  std::uint64_t begun_ = 0;  // the last generation of which there was a record
  Secret secret_{};          // of this generation
  std::string coordinator_;  // likewise
};

}  // namespace hora::hrun
