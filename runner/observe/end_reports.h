// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/end_report.h"
#include "core/launcher/question.h"
#include "runner/observe/summary.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora::hrun {

/// The reports of ranks on their own ends, and on the end of the job. Ranks that fail for one reason are told
/// of together. Makes texts; writes nothing. Not thread-safe.
class EndReports {
 public:
  /// A text for a rank's stderr, and whether it is to be shown: the first rank's with an error is; of others
  /// with the same error, or one that quotes it, the summary tells.
  struct Trace {
    std::string text;
    bool shown = true;
  };
  /// Takes the reply of a rank. Returns a trace, if one came with it. Other replies are ignored, and broken
  /// ones, too.
  std::optional<Trace> take(int rank, const Reply& reply);

  /// Another process is going to be started as this rank: what the former one has told counts for `is_common`
  /// alone, and not even for that once the new one has become a member.
  void begin(int rank);
  void forget_former(int rank) { former_.erase(rank); }

  /// Null: the rank has told nothing.
  [[nodiscard]] const EndReport* of(int rank) const;
  /// Whether this rank and others have told of the same error at the same place, and are more than those of
  /// the ranks `left` that have not. Then it is the program's, and no machine's.
  [[nodiscard]] bool is_common(int rank, const std::vector<int>& left) const;
  /// Whether the rank's trace was handed over, so that it, or one like it, was shown.
  [[nodiscard]] bool has_shown(int rank) const { return with_trace_.contains(rank); }

  /// Lines for the end of the job: the reason of rank `first` in full (-1: of nobody), then each rank that
  /// ended badly with its own line of the program, those of one reason and place together. Ranks without a
  /// report have no line here.
  [[nodiscard]] std::string describe(int first, const JobSummary& summary) const;
  /// Where the ranks left what they did last; empty if none did. Where all ranks ended well nothing else says
  /// that the job failed, so this does.
  [[nodiscard]] std::string describe_dumps(const JobSummary& summary) const;

 private:
  std::map<int, EndReport> ends_;    // of the present processes
  std::map<int, EndReport> former_;  // of the ones before
  std::map<int, GaveUp> gave_up_;
  std::set<std::string> shown_;  // errors
  std::set<int> with_trace_;     // ranks
};

/// The other ranks that ended by themselves, those alike in one line: "ranks 1-3 exited with code 0", "rank 4
/// on b was ...". Takes the place ("" or " on b") and the words by rank; tells of `most` lines, and counts
/// the rest.
[[nodiscard]] std::string describe_endings(const std::map<int, std::pair<std::string, std::string>>& endings,
                                           std::size_t most);

}  // namespace hora::hrun
