// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/horovod_flags.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>

namespace hora::hrun {
namespace {

constexpr std::array kFlags{
    HorovodFlag{"--fusion-threshold-mb", "fusion-threshold-mb"},
    HorovodFlag{"--cycle-time-ms", "cycle-time-ms"},
    HorovodFlag{"--cache-capacity", "cache-capacity"},
    HorovodFlag{"--hierarchical-allreduce", "hierarchical-allreduce", "true"},
    HorovodFlag{"--no-hierarchical-allreduce", "hierarchical-allreduce", "false"},
    HorovodFlag{"--hierarchical-allgather", "hierarchical-allgather", "true"},
    HorovodFlag{"--no-hierarchical-allgather", "hierarchical-allgather", "false"},
    HorovodFlag{"--torus-allreduce", "torus-allreduce", "true"},
    HorovodFlag{"--no-torus-allreduce", "torus-allreduce", "false"},
    HorovodFlag{"--autotune", "autotune", "true"},
    HorovodFlag{"--no-autotune", "autotune", "false"},
    HorovodFlag{"--autotune-log-file", "autotune-log-file"},
    HorovodFlag{"--autotune-warmup-samples", "autotune-warmup-samples"},
    HorovodFlag{"--autotune-steps-per-sample", "autotune-steps-per-sample"},
    HorovodFlag{"--autotune-bayes-opt-max-samples", "autotune-bayes-opt-max-samples"},
    HorovodFlag{"--autotune-gaussian-process-noise", "autotune-gaussian-process-noise"},
    HorovodFlag{"--stall-check", "stall-check", "true"},
    HorovodFlag{"--no-stall-check", "stall-check", "false"},
    HorovodFlag{"--stall-check-warning-time-seconds", "stall-check-warning-time-seconds"},
    HorovodFlag{"--stall-check-shutdown-time-seconds", "stall-check-shutdown-time-seconds"},
    HorovodFlag{"--log-level", "log-level"},
    HorovodFlag{"--log-with-timestamp", "log-with-timestamp", "true"},
    HorovodFlag{"--log-without-timestamp", "log-with-timestamp", "false"},
    HorovodFlag{"--log-hide-timestamp", "log-with-timestamp", "false"},
    HorovodFlag{"--no-log-hide-timestamp", "log-with-timestamp", "true"},
    HorovodFlag{"-prefix-timestamp", "prefix-output-with-timestamp", "true"},
    HorovodFlag{"--prefix-output-with-timestamp", "prefix-output-with-timestamp", "true"},
    HorovodFlag{"--disable-cache", "disable-cache", "true"},
    HorovodFlag{"--gloo", "gloo", "true"},
    HorovodFlag{"--jsrun", "jsrun", "true"},
    HorovodFlag{"--tcp", "tcp", "true"},
    HorovodFlag{"--binding-args", "binding-args"},
    HorovodFlag{"--mpi-threads-disable", "mpi-threads-disable", "true"},
    HorovodFlag{"--no-mpi-threads-disable", "mpi-threads-disable", "false"},
    HorovodFlag{"--num-nccl-streams", "num-nccl-streams"},
    HorovodFlag{"--thread-affinity", "thread-affinity"},
    HorovodFlag{"--gloo-timeout-seconds", "gloo-timeout-seconds"},
};

/// Of jobs that get new ranks while they run.
/// A setting that means nothing, and why. `moot`: the value that asks for how things are anyway.
struct Meaningless {
  const char* setting;
  const char* why;
  const char* moot = "false";
};

constexpr const char* kTrials = "autotune tries every size twice";
constexpr const char* kByItself = "where several hosts have several ranks each, Hora does so by itself";
constexpr const char* kStarts = "hrun itself starts the ranks";
constexpr const char* kNoMpi = "the ranks find each other without MPI";

constexpr std::array kMeaningless{
    Meaningless{"cycle-time-ms", "there is no cycle to wait for"},
    Meaningless{"cache-capacity", "what was decided before is found without a bound to set"},
    Meaningless{"hierarchical-allreduce", kByItself},
    Meaningless{"hierarchical-allgather", kByItself},
    Meaningless{"torus-allreduce", kByItself},
    Meaningless{"autotune-warmup-samples", kTrials},
    Meaningless{"autotune-bayes-opt-max-samples", kTrials},
    Meaningless{"autotune-gaussian-process-noise", kTrials},
    Meaningless{"log-with-timestamp", "lines of the log always have the time", "true"},
    Meaningless{"prefix-output-with-timestamp", "prefixes have no time; lines of the log do"},
    Meaningless{"disable-cache", "hrun remembers nothing from one job to the next"},
    Meaningless{"gloo", kStarts},
    Meaningless{"jsrun", kStarts},
    Meaningless{"tcp", kNoMpi},
    Meaningless{"binding-args", "--bind-to binds ranks to cores"},
    Meaningless{"mpi-threads-disable", kNoMpi},
    Meaningless{"num-nccl-streams", "NCCL is not used in this version"},
    Meaningless{"thread-affinity", "--bind-to binds whole ranks, and the engine's thread with them"},
};

[[noreturn]] void refuse(const std::string& setting, const std::string& expected, const std::string& value) {
  throw Error(Code::invalid_argument, fmt::format("--{}: must be {}, not '{}'", setting, expected, value));
}

std::int64_t whole(const std::string& setting, const char* unit, const std::string& text) {
  constexpr std::int64_t kMost = 10'000'000;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMost)
    refuse(setting, fmt::format("a whole number of {} from 0 to {}", unit, kMost), text);
  return number;
}

/// In our terms: trace is debug, fatal is error.
std::string log_level(const std::string& setting, std::string text) {
  const std::string given = text;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text == "trace") return "debug";
  if (text == "fatal") return "error";
  for (const char* level : {"error", "warning", "info", "debug"}) {
    if (text == level) return text;
  }
  refuse(setting, "trace, debug, info, warning, error or fatal", given);
}

}  // namespace

std::optional<HorovodFlag> find_horovod_flag(const std::string& flag) {
  const auto found =
      std::find_if(kFlags.begin(), kFlags.end(), [&](const HorovodFlag& each) { return flag == each.flag; });
  if (found == kFlags.end()) return std::nullopt;
  return *found;
}

std::vector<std::pair<std::string, std::string>> variables_of(const HorovodSettings& settings) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto setting = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = settings.find(name);
    return found == settings.end() ? std::nullopt : std::optional(found->second);
  };
  const auto number = [&](const std::string& name, const char* unit) -> std::optional<std::int64_t> {
    const auto text = setting(name);
    return text ? std::optional(whole(name, unit, *text)) : std::nullopt;
  };
  if (const auto mebibytes = number("fusion-threshold-mb", "MiB")) {
    const std::int64_t bytes = std::max<std::int64_t>(1, *mebibytes << 20);  // 0: every tensor travels alone
    variables.emplace_back("HORA_FUSION_THRESHOLD", std::to_string(bytes));
  }
  if (const auto on = setting("autotune")) variables.emplace_back("HORA_AUTOTUNE", *on == "true" ? "1" : "0");
  if (const auto path = setting("autotune-log-file")) variables.emplace_back("HORA_AUTOTUNE_LOG", *path);
  if (const auto steps = number("autotune-steps-per-sample", "steps"))
    variables.emplace_back("HORA_AUTOTUNE_STEPS", std::to_string(std::max<std::int64_t>(1, *steps)));
  if (setting("stall-check") == "false") {
    variables.emplace_back("HORA_MISSING_WARNING", "0");
    variables.emplace_back("HORA_MISSING_TIMEOUT", "0");
  } else {
    if (const auto seconds = number("stall-check-warning-time-seconds", "seconds"))
      variables.emplace_back("HORA_MISSING_WARNING", std::to_string(*seconds));
    if (const auto seconds = number("stall-check-shutdown-time-seconds", "seconds"))
      variables.emplace_back("HORA_MISSING_TIMEOUT", std::to_string(*seconds));
  }
  if (const auto level = setting("log-level"))
    variables.emplace_back("HORA_LOG_LEVEL", log_level("log-level", *level));
  if (const auto seconds = number("gloo-timeout-seconds", "seconds"))
    variables.emplace_back("HORA_START_TIMEOUT", std::to_string(std::max<std::int64_t>(1, *seconds)));
  return variables;
}

std::vector<std::string> meaningless_among(const HorovodSettings& settings) {
  std::vector<std::string> found;
  for (const auto& each : kMeaningless) {
    const auto given = settings.find(each.setting);
    if (given == settings.end() || given->second == each.moot) continue;
    const auto flag = std::find_if(kFlags.begin(), kFlags.end(), [&](const HorovodFlag& one) {
      return std::string(one.setting) == each.setting && (one.takes_value() || given->second == one.value);
    });
    found.push_back(fmt::format("{} ({})", flag == kFlags.end() ? each.setting : flag->flag, each.why));
  }
  return found;
}

}  // namespace hora::hrun
