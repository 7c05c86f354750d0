// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hora::hrun {

/// " and 2 hot spares"; empty: there are none.
inline std::string and_hot_spares(int count) {
  return count == 0 ? "" : fmt::format(" and {} hot spare{}", count, count == 1 ? "" : "s");
}

/// The last change of the members of an elastic job. A value.
struct ChangeTimes {
  std::string what;               ///< "rank 2 (pid 4711) was killed by signal 9 (Killed)"
  double seconds_ago = 0;         ///< since its members were connected
  double seconds_to_stop = 0;     ///< from when it was noticed until all members had stopped
  double seconds_to_connect = 0;  ///< from then until they were connected
  std::optional<double> seconds_to_next_step = {};  ///< from when it was noticed until a step counted
};

/// A change of the members of an elastic job, for its summary. A value.
struct ChangeSummary {
  std::uint64_t generation = 0;                     ///< that began with it
  int members = 0;                                  ///< of that generation
  std::string what;                                 ///< as ChangeTimes has it
  double seconds = 0;                               ///< from the start of the job until it was noticed
  double seconds_to_stop = 0;                       ///< from then until all members had stopped
  double seconds_to_connect = 0;                    ///< from then until they were connected
  std::optional<double> seconds_to_next_step = {};  ///< from when it was noticed until a step counted
};

/// The generations of an elastic job while it runs. A value.
struct GenerationReport {
  std::uint64_t number = 0;  ///< of the present one; 0: none has begun
  int members = 0;
  int hot_spares = 0;  ///< of the members
  bool paused = false;
  int lost = 0;      ///< processes, so far
  int replaced = 0;  ///< of these
  std::optional<ChangeTimes> last_change{};
};

}  // namespace hora::hrun
