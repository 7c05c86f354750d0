// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/config_file.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace hora::hrun {
namespace {

/// A key of one of Horovod's groups, and the flag of the same meaning. `off`: the flag for "false"; keys
/// without it take values.
struct GroupKey {
  const char* group;
  const char* key;
  const char* flag;
  const char* off = nullptr;
};

constexpr std::array kGroupKeys{
    GroupKey{"params", "fusion_threshold_mb", "--fusion-threshold-mb"},
    GroupKey{"params", "cycle_time_ms", "--cycle-time-ms"},
    GroupKey{"params", "cache_capacity", "--cache-capacity"},
    GroupKey{"params", "hierarchical_allreduce", "--hierarchical-allreduce", "--no-hierarchical-allreduce"},
    GroupKey{"params", "hierarchical_allgather", "--hierarchical-allgather", "--no-hierarchical-allgather"},
    GroupKey{"params", "torus_allreduce", "--torus-allreduce", "--no-torus-allreduce"},
    GroupKey{"autotune", "enabled", "--autotune", "--no-autotune"},
    GroupKey{"autotune", "log_file", "--autotune-log-file"},
    GroupKey{"autotune", "warmup_samples", "--autotune-warmup-samples"},
    GroupKey{"autotune", "steps_per_sample", "--autotune-steps-per-sample"},
    GroupKey{"autotune", "bayes_opt_max_samples", "--autotune-bayes-opt-max-samples"},
    GroupKey{"autotune", "gaussian_process_noise", "--autotune-gaussian-process-noise"},
    GroupKey{"timeline", "filename", "--timeline-filename"},
    GroupKey{"timeline", "mark_cycles", "--timeline-mark-cycles", "--no-timeline-mark-cycles"},
    GroupKey{"stall_check", "enabled", "--stall-check", "--no-stall-check"},
    GroupKey{"stall_check", "warning_time_seconds", "--stall-check-warning-time-seconds"},
    GroupKey{"stall_check", "shutdown_time_seconds", "--stall-check-shutdown-time-seconds"},
    GroupKey{"library_options", "mpi_threads_disable", "--mpi-threads-disable", "--no-mpi-threads-disable"},
    GroupKey{"library_options", "num_nccl_streams", "--num-nccl-streams"},
    GroupKey{"library_options", "thread_affinity", "--thread-affinity"},
    GroupKey{"library_options", "gloo_timeout_seconds", "--gloo-timeout-seconds"},
    GroupKey{"logging", "level", "--log-level"},
    GroupKey{"logging", "with_timestamp", "--log-with-timestamp", "--log-without-timestamp"},
};

/// One file on its way to becoming words.
class ConfigReader {
 public:
  ConfigReader(const std::string& file, const TakesValue& takes_value)
      : file_(file), takes_value_(takes_value) {}

  FileSettings read(const std::string& text) {
    try {
      const YAML::Node root = YAML::Load(text);
      if (!root.IsNull())
        each_of(root, "a file", [&](const auto& key, const auto& value) { take(key, value); });
      return std::move(settings_);
    } catch (const YAML::ParserException& error) {
      throw Error(Code::invalid_argument, fmt::format("{}{}", at(error.mark), error.msg));
    }
  }

 private:
  [[nodiscard]] std::string at(const YAML::Mark& mark) const {
    return fmt::format("{}:{}: ", file_, mark.line + 1);
  }

  [[noreturn]] void refuse(const YAML::Node& node, const std::string& why) const {
    throw Error(Code::invalid_argument, at(node.Mark()) + why);
  }

  /// Visits the keys of a mapping, none of which may stand there twice.
  template <typename Visit>
  void each_of(const YAML::Node& node, const std::string& what, const Visit& visit) const {
    if (!node.IsMap()) refuse(node, fmt::format("{} consists of 'key: value'", what));
    std::set<std::string> seen;
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) refuse(pair.first, "a key must be a word");
      if (!seen.insert(pair.first.Scalar()).second)
        refuse(pair.first, fmt::format("'{}' stands there twice", pair.first.Scalar()));
      visit(pair.first, pair.second);
    }
  }

  void take(const YAML::Node& key, const YAML::Node& value) {
    const std::string& name = key.Scalar();
    if (name == "environment") return take_environment(value);
    if (name == "controller") return take_controller(value);
    const auto is_of_group = [&](const GroupKey& each) { return name == each.group; };
    // `timeline` and its like are groups; hrun has no options of these names.
    if (std::any_of(kGroupKeys.begin(), kGroupKeys.end(), is_of_group)) return take_group(name, value);
    const std::string flag = "--" + name;
    if (takes_value_(flag) || find_horovod_flag(flag)) return set(flag, key, value);
    refuse(key,
           fmt::format("unknown key '{}': keys are hrun's long options without their dashes, environment, "
                       "and Horovod's groups",
                       name));
  }

  void take_environment(const YAML::Node& variables) {
    each_of(variables, "environment", [&](const YAML::Node& name, const YAML::Node& value) {
      settings_.words.push_back(
          {"-x", fmt::format("-x{}={}", name.Scalar(), text_of(name, value)), at(name.Mark())});
    });
  }

  void take_controller(const YAML::Node& value) {
    if (!value.IsScalar() || (value.Scalar() != "gloo" && value.Scalar() != "mpi"))
      refuse(value, "controller must be gloo or mpi");
    settings_.horovods["gloo"] = "true";  // neither starts the ranks, nor lets them find each other
  }

  void take_group(const std::string& group, const YAML::Node& contents) {
    if (contents.IsNull()) return;
    each_of(contents, group, [&](const YAML::Node& key, const YAML::Node& value) {
      const auto found = std::find_if(kGroupKeys.begin(), kGroupKeys.end(), [&](const GroupKey& each) {
        return group == each.group && key.Scalar() == each.key;
      });
      if (found == kGroupKeys.end()) refuse(key, fmt::format("unknown key '{}' in {}", key.Scalar(), group));
      if (found->off == nullptr) return set(found->flag, key, value);
      if (const char* flag = is_on(key, value) ? found->flag : found->off; find_horovod_flag(flag)) {
        settings_.horovods[find_horovod_flag(flag)->setting] = find_horovod_flag(flag)->value;
      } else {
        settings_.words.push_back({found->flag, flag, at(key.Mark())});
      }
    });
  }

  void set(const std::string& flag, const YAML::Node& key, const YAML::Node& value) {
    if (const auto horovods = find_horovod_flag(flag)) {
      if (horovods->takes_value()) {
        settings_.horovods[horovods->setting] = text_of(key, value);
      } else if (is_on(key, value)) {
        settings_.horovods[horovods->setting] = horovods->value;
      }
    } else if (*takes_value_(flag)) {
      settings_.words.push_back({flag, fmt::format("{}={}", flag, text_of(key, value)), at(key.Mark())});
    } else if (is_on(key, value)) {
      settings_.words.push_back({flag, flag, at(key.Mark())});
    }
  }

  [[nodiscard]] bool is_on(const YAML::Node& key, const YAML::Node& value) const {
    bool on = false;
    if (!value.IsScalar() || !YAML::convert<bool>::decode(value, on))
      refuse(key, fmt::format("'{}' must be true or false", key.Scalar()));
    return on;
  }

  [[nodiscard]] std::string text_of(const YAML::Node& key, const YAML::Node& value) const {
    if (value.IsScalar()) return value.Scalar();
    if (!value.IsSequence() || value.size() == 0)
      refuse(key, fmt::format("'{}' needs a value", key.Scalar()));
    std::vector<std::string> parts;
    for (const auto& part : value) {
      if (!part.IsScalar()) refuse(part, fmt::format("'{}' takes words, or a list of words", key.Scalar()));
      parts.push_back(part.Scalar());
    }
    return fmt::format("{}", fmt::join(parts, ","));
  }

  const std::string& file_;
  const TakesValue& takes_value_;
  FileSettings settings_;
};

}  // namespace

FileSettings parse_config(const std::string& text, const std::string& file, const TakesValue& takes_value) {
  return ConfigReader(file, takes_value).read(text);
}

FileSettings read_config_file(const std::string& file, const TakesValue& takes_value) {
  const std::ifstream stream(file);
  std::ostringstream text;
  if (!(text << stream.rdbuf()))
    throw Error(Code::invalid_argument, fmt::format("{}: cannot read this file (--config-file)", file));
  return parse_config(text.str(), file, takes_value);
}

}  // namespace hora::hrun
