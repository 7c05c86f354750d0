// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/health.h"
#include "runner/observe/generation_report.h"

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// Whether a rank can say how it is.
enum class Presence {
  absent,  ///< it has not called init yet
  here,
  left,  ///< it has called shutdown
};

/// A rank as hrun knows it. A value.
struct RankReport {
  int rank = 0;
  std::string host;
  int pid = 0;                    ///< 0: it was not started yet
  std::string ending;             ///< "exited with code 3"; empty: it has not ended
  std::optional<double> seconds;  ///< that it has run; none: not started
  Presence presence = Presence::absent;
  std::optional<Health> health;  ///< none: it cannot say, or did not answer
};

/// A job while it runs. A value.
struct JobReport {
  std::string id;
  int pid = 0;  ///< of hrun
  std::string host;
  std::vector<std::string> command;
  double seconds = 0;               ///< that hrun has run
  std::optional<JobHealth> health;  ///< none: rank 0's engine did not answer
  std::vector<RankReport> ranks;
  std::optional<GenerationReport> generation{};  ///< of an elastic job
};

// The three faces of `hrun status`. docs/run.md and hrun --help describe them; keys and names stay as they
// are.

/// For people: some sentences, and a table of the ranks.
[[nodiscard]] std::string describe(const JobReport& report);
/// One JSON object. A value that is not known is null.
[[nodiscard]] std::string to_json(const JobReport& report);
/// Prometheus's text format, version 0.0.4. A value that is not known is left out.
[[nodiscard]] std::string to_prometheus(const JobReport& report);

/// The text about a rank that gave no answer.
[[nodiscard]] std::string why_silent(const RankReport& rank);

}  // namespace hora::hrun
