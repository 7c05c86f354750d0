// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/generations.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <vector>

namespace hora::hrun {

/// The flags of elastic jobs, before their meaning is checked.
struct ElasticFlags {
  std::optional<int> min_ranks;
  std::optional<int> max_ranks;
  std::optional<double> timeout;
  std::optional<int> most_replacements;
  std::vector<double> cooldown_range;
  std::optional<int> reset_limit;

  /// Declares them; refers to this.
  void add_to(CLI::App& app);
  /// Returns the rules of the job; nothing if it is not elastic. `ranks`: with how many it begins. Throws
  /// Error(invalid_argument) that says what is wrong.
  [[nodiscard]] std::optional<GenerationPolicy> policy(int ranks) const;
};

}  // namespace hora::hrun
