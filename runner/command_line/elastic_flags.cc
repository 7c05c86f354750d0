// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/elastic_flags.h"

#include "runner/command_line/flag_checks.h"
#include "runner/launch/environment.h"

#include <limits>
#include <string>

namespace hora::hrun {
namespace {

constexpr std::string_view kHot = ":hot";
constexpr int kMostElasticChanges = 1'000'000;
constexpr double kMostElasticSeconds = 1e7;
constexpr std::chrono::seconds kElasticSilence{6};  // a rank is silent while it stops, for up to 5 s

std::string number_of_ranks(int count) { return fmt::format("{} rank{}", count, count == 1 ? "" : "s"); }

/// The number in "N" or "N:hot".
std::string number_of(const std::string& spares) {
  return spares.substr(0, spares.size() - (spares.ends_with(kHot) ? kHot.size() : 0));
}

std::string check_spares(const std::string& text) {
  const std::string wrong = number_from(0, kMostElasticRanks, "processes")(number_of(text));
  if (wrong.empty()) return {};
  return fmt::format("must be N or N:hot, N from 0 to {}, not '{}'", kMostElasticRanks, text);
}

}  // namespace

void ElasticFlags::add_to(CLI::App& app) {
  app.add_option("--min-np,--min-num-proc", min_ranks)->check(number_from(1, kMostElasticRanks, "ranks"), "");
  app.add_option("--max-np,--max-num-proc", max_ranks)->check(number_from(1, kMostElasticRanks, "ranks"), "");
  app.add_option("--elastic-timeout", timeout)->check(number_from(0.001, kMostElasticSeconds, "seconds"), "");
  app.add_option("--max-replacements", most_replacements)
      ->check(number_from(0, kMostElasticChanges, "processes"), "");
  app.add_option("--blacklist-cooldown-range", cooldown_range)
      ->expected(2)
      ->check(number_from(0.0, kMostElasticSeconds, "seconds"), "");
  app.add_option("--reset-limit", reset_limit)->check(number_from(0, kMostElasticChanges, "changes"), "");
  app.add_option("--host-discovery-script", discovery_script);
  app.add_option("--slots-per-host", slots_per_host)->check(number_from(1, kMostElasticRanks, "slots"), "");
  app.add_option("--spares", spares_text)->check(check_spares, "");
  app.add_option("--stopped-after", stopped_after)
      ->check(number_from(0.0, kMostElasticSeconds, "seconds"), "");
}

std::optional<DiscoveryPlan> ElasticFlags::discovery() const {
  if (!discovery_script) {
    if (slots_per_host) refuse("--slots-per-host needs --host-discovery-script SCRIPT");
    return std::nullopt;
  }
  if (discovery_script->find_first_not_of(' ') == std::string::npos)
    refuse("--host-discovery-script needs a command that prints hosts");
  return DiscoveryPlan{*discovery_script, slots_per_host.value_or(1)};
}

int ElasticFlags::spares() const {
  int count = 0;
  if (spares_text) CLI::detail::lexical_cast(number_of(*spares_text), count);
  return count;
}

std::chrono::milliseconds ElasticFlags::pause_timeout() const {
  if (timeout) return seconds(*timeout);
  const auto text = variable("HOROVOD_ELASTIC_TIMEOUT");
  if (!text || text->empty()) return elastic::ElasticPolicy{}.pause_timeout;
  const std::string wrong = number_from(0.001, kMostElasticSeconds, "seconds")(*text);
  if (!wrong.empty()) refuse("HOROVOD_ELASTIC_TIMEOUT " + wrong);
  return seconds(std::stod(*text));
}

std::optional<GenerationPolicy> ElasticFlags::policy(int ranks) const {
  if (!min_ranks && !max_ranks && !discovery_script) {
    for (const auto& [given, flag] :
         {std::pair(timeout.has_value(), "--elastic-timeout"),
          std::pair(most_replacements.has_value(), "--max-replacements"),
          std::pair(reset_limit.has_value(), "--reset-limit"), std::pair(spares_text.has_value(), "--spares"),
          std::pair(stopped_after.has_value(), "--stopped-after"),
          std::pair(!cooldown_range.empty(), "--blacklist-cooldown-range")}) {
      if (given) refuse(fmt::format("{} needs --min-np N", flag));
    }
    return std::nullopt;
  }
  GenerationPolicy policy;
  policy.members.silence = kElasticSilence;
  policy.members.first_members = ranks;
  policy.members.min_members = min_ranks.value_or(ranks);
  policy.members.max_members = max_ranks.value_or(discovery_script ? kMostElasticRanks : ranks);
  if (policy.members.min_members > ranks) {
    refuse(fmt::format("--min-np {}: the job begins with {} (-np); choose at most as many", *min_ranks,
                       number_of_ranks(ranks)));
  }
  if (policy.members.max_members < ranks) {
    refuse(fmt::format("--max-np {}: the job begins with {} (-np); choose at least as many", *max_ranks,
                       number_of_ranks(ranks)));
  }
  policy.members.pause_timeout = pause_timeout();
  if (spares() > 0 && spares_text->ends_with(kHot)) {
    if (policy.members.max_members == kMostElasticRanks)
      refuse(fmt::format("--spares {}: say how many ranks are to train: --max-np N", *spares_text));
    policy.members.hot_spares = spares();
    policy.members.max_members += spares();
  } else {
    policy.spares = spares();
  }
  if (stopped_after) policy.members.stopped_after = seconds(*stopped_after);
  policy.replacement.most = most_replacements.value_or(std::numeric_limits<int>::max());
  if (!cooldown_range.empty()) {
    if (cooldown_range[0] > cooldown_range[1]) {
      refuse(fmt::format("--blacklist-cooldown-range {} {}: the first number is the shorter time",
                         cooldown_range[0], cooldown_range[1]));
    }
    policy.replacement.shortest_rest = seconds(cooldown_range[0]);
    policy.replacement.longest_rest = seconds(cooldown_range[1]);
  }
  if (reset_limit) policy.reset_limit = static_cast<std::uint64_t>(*reset_limit);
  return policy;
}

}  // namespace hora::hrun
