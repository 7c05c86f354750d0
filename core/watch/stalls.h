// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"
#include "core/watch/account.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora {

/// Decides what becomes of tensors that some ranks wait for and others have not submitted: a warning after
/// some time, and again each time that passes, in short where nothing has changed; after another time the job
/// fails. Of two tensors whose ranks wait for each other the one that is told is where the mistake probably
/// is. A rank that is expected to be late is missed from the end of that on.
///
/// Before it says anything it wants accounts from all who are missing; each has a second to answer. A tensor
/// may become overdue while others are asked: those whom it alone misses are then asked, too, before anything
/// is said. Each rank is asked once, so that ends, and one account serves all that is said. Told what waits;
/// says what to do. *Engine only*, on rank 0.
class Stalls {
 public:
  /// When to warn, and when to end the job; 0: never.
  struct Patience {
    std::chrono::milliseconds warning{};
    std::chrono::milliseconds timeout{};
  };
  Stalls(Patience patience, const std::vector<Member>& members) : patience_(patience), members_(members) {}

  /// What is to be done now. A value.
  struct Advice {
    std::vector<int> ask;               ///< ranks whose accounts are wanted
    std::vector<std::string> warnings;  ///< one for all tensors that wait for the same ranks
    std::optional<Status> verdict;      ///< the job is to fail, with this
    TimePoint next = TimePoint::max();  ///< when to look again, if nothing is heard before
  };
  Advice look(const Negotiator& negotiator, TimePoint now);

  void tell(int rank, Account account);
  void expect_delay(int rank, const Delay& delay, TimePoint now);

 private:
  /// A tensor that some wait for, since the first of those who are missing had no excuse any more.
  struct Overdue {
    Coordinator::Waiting waiting;
    TimePoint since;
    int more = 0;  ///< tensors of which the same is to be said
  };
  /// Who has been asked for an account.
  struct Inquiry {
    std::set<int> asked;
    std::set<int> open;  // of them, those whose answers are waited for
    TimePoint until;
    std::map<int, Account> accounts;
  };
  /// What a rank said of itself.
  struct Excuse {
    std::string name;
    std::chrono::milliseconds time{};  ///< 0: it is back since `until`
    TimePoint until;
  };

  [[nodiscard]] std::chrono::milliseconds first() const;
  /// Whether the job ends for what some have missed since then.
  [[nodiscard]] bool fails(TimePoint since, TimePoint now) const;
  [[nodiscard]] TimePoint next_look(TimePoint since, TimePoint warned) const;
  [[nodiscard]] std::vector<Overdue> overdue(const Negotiator& negotiator, TimePoint now,
                                             TimePoint& next) const;
  [[nodiscard]] TimePoint since(const Coordinator::Waiting& waiting) const;
  [[nodiscard]] std::vector<int> ask_about(const std::vector<Overdue>& all, TimePoint now);
  void report(const Negotiator& negotiator, const std::vector<Overdue>& all, TimePoint now, Advice& advice);
  [[nodiscard]] std::string describe(const Negotiator& negotiator, const Overdue& overdue,
                                     TimePoint now) const;
  [[nodiscard]] static std::string describe_tensor(const Overdue& overdue);
  [[nodiscard]] static std::string describe_again(const Overdue& overdue, TimePoint now);
  [[nodiscard]] std::string describe_missing(const Negotiator& negotiator,
                                             const std::vector<int>& ranks) const;
  [[nodiscard]] std::string state_of(const Negotiator& negotiator, int rank) const;
  [[nodiscard]] std::string signature(const Negotiator& negotiator, const std::vector<int>& missing) const;
  [[nodiscard]] std::vector<std::vector<int>> alike(const Negotiator& negotiator,
                                                    const std::vector<int>& missing) const;

  Patience patience_;
  const std::vector<Member>& members_;
  std::map<int, Excuse> excuses_;
  std::optional<Inquiry> inquiry_;
  TimePoint warned_;
  std::map<std::string, std::string>
      told_;  // of each tensor in the last warnings: what the missing ranks did
};

}  // namespace hora
