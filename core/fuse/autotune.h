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

/// Tries how many bytes should travel together, in steps of a training: each size twice, in one order and
/// then in the other. The usual size is kept, unless another one's steps were faster by 2 % in both of its
/// trials than those of the usual one in either. It ends, and says what it has found. *Engine only.*
class Autotune {
 public:
  /// `usual`: how many bytes travel together now. `steps`: how many of a trial are measured; those before are
  /// not, in which ranks get used to the size. `log`: where the trials are written, a line each as CSV;
  /// empty: nowhere. Throws Error(invalid_argument) if that cannot be written.
  Autotune(std::size_t usual, int steps, const std::string& log);

  /// A step has ended. How many bytes are to travel together from now on, if that is to change.
  std::optional<std::size_t> end_step(TimePoint now);
  [[nodiscard]] bool has_ended() const { return trial_ == trials_.size(); }
  /// When it has ended: a sentence for users.
  [[nodiscard]] std::string found() const;

 private:
  struct Trial {
    std::size_t bytes = 0;
    std::vector<double> times;  // of its steps, milliseconds
  };
  void write(const Trial& trial);
  std::size_t conclude();
  [[nodiscard]] std::pair<double, double> typical_times(std::size_t bytes) const;

  std::size_t usual_;
  std::size_t steps_;
  std::vector<Trial> trials_;  // in this order
  std::size_t trial_ = 0;      // the present one
  int settling_ = 0;           // steps of it that have been let pass
  bool begun_ = false;
  TimePoint last_;  // end of a step
  std::size_t best_ = 0;
  std::ofstream log_;
};

}  // namespace hora
