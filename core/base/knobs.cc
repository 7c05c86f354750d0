// SPDX-License-Identifier: Apache-2.0
#include "core/base/knobs.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kLeastArena = 16 << 20;
constexpr std::size_t kMostLevels = 4;
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse_value(const std::string& source, const std::string& value,
                               const std::string& expected) {
  throw Error(Code::invalid_argument, fmt::format("{}='{}': expected {}", source, value, expected));
}

// --- a row for each kind of value ---

std::uint64_t parse_whole(const std::string& source, const std::string& value, std::uint64_t least,
                          std::uint64_t most) {
  std::uint64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most)
    refuse_value(source, value, fmt::format("a whole number from {} to {}", least, most));
  return number;
}

template <typename Number>
Knob whole_number(const char* variable, Number Config::* member, std::uint64_t least, std::uint64_t most,
                  KnobOf of = KnobOf::rank) {
  return {variable, of,
          [member, least, most](Config& config, const std::string& source, const std::string& value) {
            config.*member = static_cast<Number>(parse_whole(source, value, least, most));
          },
          [member](const Config& config) { return fmt::to_string(config.*member); }};
}

/// A number that Hora chooses where it is not set.
Knob optional_number(const char* variable, std::optional<int> Config::* member, int most, KnobOf of) {
  return {variable, of,
          [member, most](Config& config, const std::string& source, const std::string& value) {
            config.*member =
                static_cast<int>(parse_whole(source, value, 0, static_cast<std::uint64_t>(most)));
          },
          [member](const Config& config) {
            return config.*member ? fmt::to_string(*(config.*member)) : std::string();
          }};
}

Knob seconds(const char* variable, std::chrono::milliseconds Config::* member, double least) {
  return {variable, KnobOf::rank,
          [member, least](Config& config, const std::string& source, const std::string& value) {
            char* end = nullptr;
            const double number = std::strtod(value.c_str(), &end);
            if (*end != '\0' || !(number >= least) || number > 1e7)
              refuse_value(source, value, fmt::format("seconds from {} to 10000000", least));
            config.*member = std::chrono::milliseconds(static_cast<std::int64_t>(number * 1000));
          },
          [member](const Config& config) {
            return fmt::to_string(std::chrono::duration<double>(config.*member).count());
          }};
}

Knob any_text(const char* variable, std::string Config::* member, KnobOf of = KnobOf::rank) {
  return {variable, of,
          [member](Config& config, const std::string&, const std::string& value) { config.*member = value; },
          [member](const Config& config) { return config.*member; }};
}

Knob on_or_off(const char* variable, bool Config::* member, KnobOf of = KnobOf::rank) {
  return {variable, of,
          [member](Config& config, const std::string& source, const std::string& value) {
            config.*member = parse_whole(source, value, 0, 1) == 1;
          },
          [member](const Config& config) { return std::string(config.*member ? "1" : "0"); }};
}

std::string parse_choice(const std::string& source, const std::string& value,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    refuse_value(source, value, fmt::format("one of {}", fmt::join(choices, ", ")));
  return value;
}

Knob choice(const char* variable, std::string Config::* member, std::vector<std::string> choices,
            KnobOf of = KnobOf::rank) {
  return {variable, of,
          [member, choices = std::move(choices)](Config& config, const std::string& source,
                                                 const std::string& value) {
            config.*member = parse_choice(source, value, choices);
          },
          [member](const Config& config) { return config.*member; }};
}

Knob on_off_or_auto(const char* variable, std::optional<bool> Config::* member, KnobOf of = KnobOf::rank) {
  return {variable, of,
          [member](Config& config, const std::string& source, const std::string& value) {
            const std::string chosen = parse_choice(source, value, {"auto", "0", "1"});
            config.*member = chosen == "auto" ? std::nullopt : std::optional(chosen == "1");
          },
          [member](const Config& config) -> std::string {
            if (!(config.*member)) return "auto";
            return *(config.*member) ? "1" : "0";
          }};
}

/// Such as "8,32": each a multiple of the one before.
std::vector<int> parse_levels(const std::string& source, const std::string& value) {
  const auto refuse = [&] {
    refuse_value(source, value,
                 fmt::format("auto, 0, or at most {} numbers of ranks such as 8,32, each a multiple of the "
                             "one before",
                             kMostLevels));
  };
  std::vector<int> levels;
  const char* next = value.data();
  const char* const end = next + value.size();
  while (true) {
    int size = 0;
    const int before = levels.empty() ? 1 : levels.back();
    const auto [stop, error] = std::from_chars(next, end, size);
    if (error != std::errc() || size <= before || size % before != 0 || levels.size() == kMostLevels)
      refuse();
    levels.push_back(size);
    if (stop == end) return levels;
    if (*stop != ',') refuse();
    next = stop + 1;
  }
}

Knob levels() {
  return {"HORA_LEVELS", KnobOf::job,
          [](Config& config, const std::string& source, const std::string& value) {
            config.levels.reset();
            if (value == "auto") return;
            config.levels = value == "0" ? std::vector<int>() : parse_levels(source, value);
          },
          [](const Config& config) -> std::string {
            if (!config.levels) return "auto";
            return config.levels->empty() ? "0" : fmt::format("{}", fmt::join(*config.levels, ","));
          }};
}

Knob arena_size() {
  Knob knob = whole_number("HORA_ARENA_SIZE", &Config::arena_size, 0, kMostBytes);
  knob.parse = [parse = knob.parse](Config& config, const std::string& source, const std::string& value) {
    parse(config, source, value);
    if (config.arena_size != 0 && config.arena_size < kLeastArena)
      refuse_value(source, value, fmt::format("0 or at least {} bytes", kLeastArena));
  };
  return knob;
}

Knob dump_signal() {
  return {"HORA_DUMP_SIGNAL", KnobOf::rank,
          [](Config& config, const std::string& source, const std::string& value) {
            config.dump_signal = parse_choice(source, value, {"USR1", "USR2"}) == "USR1" ? SIGUSR1 : SIGUSR2;
          },
          [](const Config& config) -> std::string {
            if (config.dump_signal == 0) return "";
            return config.dump_signal == SIGUSR1 ? "USR1" : "USR2";
          }};
}

std::vector<Knob> make_knobs() {
  using C = Config;
  return {
      seconds("HORA_START_TIMEOUT", &C::start_timeout, 0.001),
      seconds("HORA_HEARTBEAT_TIMEOUT", &C::heartbeat_timeout, 0),
      seconds("HORA_MISSING_WARNING", &C::missing_warning, 0),
      seconds("HORA_MISSING_TIMEOUT", &C::missing_timeout, 0),
      seconds("HORA_OPERATION_TIMEOUT", &C::operation_timeout, 0),
      any_text("HORA_NETWORK", &C::network),
      choice("HORA_ENCRYPTION", &C::encryption, {"control", "all"}, KnobOf::job),
      optional_number("HORA_TREE", &C::tree_radix, 64, KnobOf::rank),
      any_text("HORA_CPU_OPERATIONS", &C::cpu_operations, KnobOf::job),
      choice("HORA_GPU_OPERATIONS", &C::gpu_operations, {"auto", "nccl", "hierarchical", "staged"},
             KnobOf::job),
      any_text("HORA_NCCL_LIBRARY", &C::nccl_library),
      any_text("NCCL_HOSTID", &C::nccl_host_id),
      on_or_off("HORA_FLOAT32_SUMS", &C::float32_sums, KnobOf::job),
      whole_number("HORA_GPU_FUSION_THRESHOLD", &C::gpu_fusion_threshold, 0, kMostBytes, KnobOf::job),
      on_or_off("HORA_DETERMINISTIC", &C::deterministic, KnobOf::job),
      whole_number("HORA_TCP_STREAMS", &C::tcp_streams, 0, 16, KnobOf::job),
      whole_number("HORA_FUSION_THRESHOLD", &C::fusion_threshold, 0, kMostBytes, KnobOf::job),
      on_or_off("HORA_AUTOTUNE", &C::autotune, KnobOf::job),
      any_text("HORA_AUTOTUNE_LOG", &C::autotune_log),
      whole_number("HORA_AUTOTUNE_STEPS", &C::autotune_steps, 1, 10'000),
      arena_size(),
      on_off_or_auto("HORA_PEER_MEMORY", &C::peer_memory, KnobOf::job),
      on_off_or_auto("HORA_STREAMING_STORES", &C::streaming_stores),
      levels(),
      whole_number("HORA_STRAGGLER_STEPS", &C::straggler_steps, 0, 10'000),
      whole_number("HORA_RECORDED_OPERATIONS", &C::recorded_operations, 0, 1'000'000),
      any_text("HORA_TIMELINE", &C::timeline),
      on_or_off("HORA_TIMELINE_MARK_CYCLES", &C::timeline_mark_cycles),
      any_text("HORA_DUMP_DIR", &C::dump_directory),
      dump_signal(),
      choice("HORA_LOG_LEVEL", &C::log_level, {"error", "warning", "info", "debug"}),
  };
}

}  // namespace

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = make_knobs();
  return all;
}

}  // namespace hora
