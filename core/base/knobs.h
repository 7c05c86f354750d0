// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

#include <functional>
#include <string>
#include <vector>

namespace hora {

/// The ranks for which a value of a knob counts.
enum class KnobOf {
  rank,  ///< each rank its own
  job,   ///< rank 0: its value counts on all ranks, which are told so when they meet
};

/// One setting of the runtime that an environment variable sets.
struct Knob {
  std::string variable;
  KnobOf of = KnobOf::rank;
  /// Sets the knob to a value in the variable's form. `source`: the variable that the value is from, for the
  /// message. Throws Error(invalid_argument) that names it, the value, and what is accepted.
  std::function<void(Config& config, const std::string& source, const std::string& value)> parse;
  /// The knob's value in the variable's form: `parse` takes it. Empty: it is left to Hora.
  std::function<std::string(const Config& config)> format;
};

/// All knobs, in the order of hora/config.h. A new knob is a member there, with its documentation, and a row
/// in knobs.cc: reading, agreement between ranks, and warnings of misspelt variables follow.
[[nodiscard]] const std::vector<Knob>& knobs();

}  // namespace hora
