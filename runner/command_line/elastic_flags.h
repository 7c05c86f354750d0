// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/elastic/discovery.h"
#include "runner/elastic/generations.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <optional>
#include <string>
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
  std::optional<std::string> discovery_script;
  std::optional<int> slots_per_host;
  std::optional<std::string> spares_text;  // N or N:hot
  std::optional<double> stopped_after;

  /// Declares them; refers to this.
  void add_to(CLI::App& app);
  /// Nothing: the hosts do not change. Throws Error(invalid_argument).
  [[nodiscard]] std::optional<DiscoveryPlan> discovery() const;
  /// The processes beyond the ranks that train.
  [[nodiscard]] int spares() const;
  /// How long the job may lack ranks, at the start too.
  [[nodiscard]] std::chrono::milliseconds pause_timeout() const;
  /// Returns the rules of the job; nothing if it is not elastic. `ranks`: with how many it begins. Throws
  /// Error(invalid_argument) that says what is wrong.
  [[nodiscard]] std::optional<GenerationPolicy> policy(int ranks) const;
};

}  // namespace hora::hrun
