// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/generation_record.h"
#include "runner/observe/generation_report.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// A number of ranks that no job has: as many as there are slots.
inline constexpr int kMostElasticRanks = 1 << 16;

/// The texts, separated by `mark`; of many the first ones, and how many more there are.
[[nodiscard]] std::string listed(std::vector<std::string> texts, const char* mark);

/// A change of the members of an elastic job, for the user: what has happened, and how long it took.
class ChangeReport {
 public:
  /// `why`: its first cause.
  ChangeReport(TimePoint noticed, std::string why)
      : noticed_(noticed), stopped_(noticed), why_(std::move(why)) {}

  /// A loss, or a join: "rank 2 (pid 4711) was killed by signal 9 (Killed)".
  void add(std::string event) { events_.push_back(std::move(event)); }
  /// All members have reported.
  void stopped(TimePoint now) { stopped_ = now; }
  /// "<events>; the job goes on with 3 of 4 ranks (generation 2)". The events are told once. `most`: how many
  /// ranks the job may have; `least`: with fewer it pauses.
  [[nodiscard]] std::string describe(const elastic::GenerationRecord& record, int least, int most);
  /// The members of the new generation are connected: the change is over.
  void formed(TimePoint now) { formed_ = now; }
  /// The first step of the new generation has counted.
  void stepped(TimePoint now) { stepped_ = now; }
  /// "generation 2: its members stopped 1.2 ms after the change was noticed, and were connected 9.1 ms
  /// later".
  [[nodiscard]] std::string describe_times(std::uint64_t generation) const;
  /// "generation 2: its first step counted 31.0 ms after the change was noticed".
  [[nodiscard]] std::string describe_step() const;
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  /// Of a change that is over. `start`: of the job.
  [[nodiscard]] ChangeTimes times(TimePoint now) const;
  [[nodiscard]] ChangeSummary summary(TimePoint start) const;

 private:
  [[nodiscard]] std::optional<double> seconds_to_next_step() const;

  TimePoint noticed_;
  TimePoint stopped_;
  TimePoint formed_{};
  std::optional<TimePoint> stepped_;
  std::string why_;
  std::vector<std::string> events_;  // of which no line was given
  std::string told_;                 // those of which one was
  std::uint64_t generation_ = 0;     // that it begins
  int members_ = 0;                  // of that generation
};

/// The changes of the members of an elastic job: the one that is under way, and those that are over.
class Changes {
 public:
  /// `start`: of the job.
  explicit Changes(TimePoint start) : start_(start) {}

  /// The change that is under way; begins one, because of `why`, if there is none.
  ChangeReport& begin(const std::string& why, TimePoint when);
  /// Null: none is under way.
  [[nodiscard]] ChangeReport* under_way() { return under_way_ ? &*under_way_ : nullptr; }
  /// Ends the change that is under way.
  void end(TimePoint now);
  /// The first step of this generation has counted. Returns whether the last change has begun it.
  bool stepped(std::uint64_t generation, TimePoint now);
  /// The last one that is over; nothing: there was none.
  [[nodiscard]] const std::optional<ChangeReport>& last() const { return last_; }
  /// Those that are over, in order; of very many the last ones.
  [[nodiscard]] std::vector<ChangeSummary> summary() const { return {all_.begin(), all_.end()}; }

 private:
  TimePoint start_;
  std::optional<ChangeReport> under_way_;
  std::optional<ChangeReport> last_;
  std::deque<ChangeSummary> all_;
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

}  // namespace hora::hrun
