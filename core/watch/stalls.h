// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"
#include "core/watch/account.h"
#include "core/watch/waits.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora {

/// Decides what becomes of tensors that some ranks wait for and others have not submitted. It warns after
/// some time, and again each time that passes, in short where nothing has changed. After another time the job
/// fails. Of two tensors whose ranks wait for each other, it tells the one where the mistake probably is. A
/// rank that is expected to be late is missed from the end of that delay on. The same holds for messages that
/// wait for another rank; each rank tells of them when they have waited for long. Of ranks that wait in
/// shutdown for others there is one warning, and no more: the others may have work to do.
///
/// Before it says anything it wants accounts from all missing ranks; each has a second to answer. A tensor
/// may become overdue while others are asked: the ranks that it alone misses are then asked, too, before
/// anything is said. Each rank is asked once, so that ends, and one account serves all that is said. The
/// caller tells it what waits; it says what to do. *Engine only*, on rank 0.
class Stalls {
 public:
  /// When to warn, and when to end the job; 0: never.
  struct Limits {
    std::chrono::milliseconds warning{};
    std::chrono::milliseconds timeout{};
  };
  Stalls(Limits limits, const std::vector<Member>& members)
      : limits_(limits), members_(members), waits_(static_cast<int>(members.size())) {}

  /// The actions that are due now. A value.
  struct Advice {
    std::vector<int> ask;               ///< ranks whose accounts are wanted
    std::vector<std::string> warnings;  ///< one for all tensors that wait for the same ranks
    std::optional<Status> verdict;      ///< the job is to fail, with this
    TimePoint next = TimePoint::max();  ///< when to look again, if nothing is heard before
  };
  Advice look(const Negotiator& negotiator, TimePoint now);

  void tell(int rank, Account account);
  /// Takes all messages of this rank that have waited for long, instead of those that it told of before.
  void tell_waits(int rank, const std::vector<MessageWait>& waits, TimePoint now);
  void expect_delay(int rank, const Delay& delay, TimePoint now);
  /// The time after which there may be something to say of what waits; 0: never.
  [[nodiscard]] std::chrono::milliseconds first() const;

 private:
  /// A wait, and the time since which the first of the missing ranks has had no excuse any more.
  struct Overdue {
    Wait wait;
    TimePoint since;
    int more = 0;  ///< others of which the same is to be said
  };
  /// The ranks that have been asked for an account, and their answers.
  struct Inquiry {
    std::set<int> asked;
    std::set<int> open;  // of them, those whose answers are waited for
    TimePoint until;
    std::map<int, Account> accounts;
  };
  /// The delay that a rank said it would have.
  struct Excuse {
    std::string name;
    std::chrono::milliseconds time{};  ///< 0: it is back since `until`
    TimePoint until;
  };

  [[nodiscard]] bool fails(const Wait& wait, TimePoint since, TimePoint now) const;
  [[nodiscard]] TimePoint next_look(const Wait& wait, TimePoint since, TimePoint warned) const;
  [[nodiscard]] std::vector<Overdue> overdue(const std::vector<Wait>& unfinished, TimePoint now,
                                             TimePoint& next) const;
  [[nodiscard]] TimePoint since(const WaitingTensor& waiting) const;
  [[nodiscard]] std::vector<int> ask_about(const std::vector<Overdue>& all, TimePoint now);
  void report(const std::vector<Wait>& unfinished, const std::vector<Overdue>& all, TimePoint now,
              Advice& advice);
  [[nodiscard]] std::string describe(const std::vector<Wait>& unfinished, const Overdue& overdue,
                                     TimePoint now) const;
  [[nodiscard]] static std::string describe_again(const Overdue& overdue, TimePoint now);
  [[nodiscard]] std::string describe_missing(const std::vector<Wait>& unfinished,
                                             const std::vector<int>& ranks) const;
  [[nodiscard]] std::string state_of(const std::vector<Wait>& unfinished, int rank) const;
  [[nodiscard]] std::string signature(const std::vector<Wait>& unfinished,
                                      const std::vector<int>& missing) const;
  [[nodiscard]] std::vector<std::vector<int>> alike(const std::vector<Wait>& unfinished,
                                                    const std::vector<int>& missing) const;

  Limits limits_;
  const std::vector<Member>& members_;
  std::map<int, Excuse> excuses_;
  std::optional<Inquiry> inquiry_;
  TimePoint warned_;
  Waits waits_;
  std::map<std::string, std::string> told_;  // of what was in the last warnings: what the missing ranks did
};

}  // namespace hora
