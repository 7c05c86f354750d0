// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// Measures how many bytes should travel together, during the first steps of a training. It tries the powers
/// of two from 1 to 64 MiB and the usual size, each in two trials: all sizes in ascending order, and then all
/// in descending order. The median step of a trial counts.
///
/// The best size is the one whose slower trial is the fastest. It is chosen only if this trial is faster, by
/// 2 % or more, than the faster trial of the usual size; else the usual size stays. *Engine only.*
class Autotune {
 public:
  /// `usual`: how many bytes travel together now. `variables`: those of HORA_* that set what is tuned.
  /// `steps`: how many steps of a trial are measured, after some in which ranks get used to the size. `log`:
  /// the path of a CSV file for the trials, a line each; empty: none. Throws Error(invalid_argument) if that
  /// cannot be written.
  Autotune(std::size_t usual, std::vector<std::string> variables, int steps, const std::string& log);

  /// A step has ended. Returns how many bytes are to travel together from now on, if that is to change.
  std::optional<std::size_t> end_step(TimePoint now);
  [[nodiscard]] bool has_ended() const { return trial_ == trials_.size(); }
  /// The result, as a sentence for users that says what to set. Only when it has ended.
  [[nodiscard]] std::string found() const;

 private:
  struct Trial {
    std::size_t bytes = 0;
    std::vector<double> times;  // of its steps, milliseconds
  };
  void write(const Trial& trial);
  std::size_t conclude();
  /// The medians of a size's two trials, the better one first.
  [[nodiscard]] std::pair<double, double> typical_times(std::size_t bytes) const;

  std::size_t usual_;
  std::vector<std::string> variables_;
  std::size_t steps_;
  std::vector<std::size_t> sizes_;  // ascending, bytes
  std::vector<Trial> trials_;       // in this order
  std::size_t trial_ = 0;           // the present one
  int settling_ = 0;                // steps of it that have been let pass
  bool begun_ = false;
  TimePoint last_;  // end of a step
  std::size_t best_ = 0;
  std::ofstream log_;
};

}  // namespace hora
