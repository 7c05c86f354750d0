// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/generation_record.h"
#include "runner/observe/generation_report.h"

#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

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
  /// "generation 2: its members stopped 1.2 ms after the change was noticed, and were connected 9.1 ms
  /// later".
  [[nodiscard]] std::string describe_times(std::uint64_t generation) const;
  /// Of a change that is over.
  [[nodiscard]] ChangeTimes times(TimePoint now) const;

 private:
  TimePoint noticed_;
  TimePoint stopped_;
  TimePoint formed_{};
  std::string why_;
  std::vector<std::string> events_;  // of which no line was given
  std::string told_;                 // those of which one was
};

}  // namespace hora::hrun
