// SPDX-License-Identifier: Apache-2.0
#include "core/join/agree.h"

#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/join/differences.h"
#include "core/join/exchange.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>

namespace hora {
namespace {

constexpr std::uint64_t kMostStreams = 16;
constexpr std::uint64_t kMostLevels = 4;
constexpr std::size_t kLongestVersion = 64;
constexpr std::size_t kLongestArguments = 1024;  // what is longer is compared up to there

/// The words that this process was started with, after the program's name.
std::string own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  words.erase(0, words.find('\0') + 1);
  if (words.find("--multiprocessing-fork") != std::string::npos) return {};  // Python's own, of each process
  if (!words.empty()) words.pop_back();                                      // the last word ends, too
  for (char& each : words) {
    if (each == '\0') each = ' ';
  }
  words.resize(std::min(words.size(), kLongestArguments));
  return words;
}

/// Of a knob that may be left to Hora.
std::uint8_t number_of(std::optional<bool> way) { return way ? (*way ? 1 : 0) : 2; }
std::optional<bool> way_of(std::uint64_t number) {
  return number == 2 ? std::nullopt : std::optional(number == 1);
}

void write_levels(Writer& out, const std::vector<int>& levels) {
  out.u8(static_cast<std::uint8_t>(levels.size()));
  for (const int size : levels) out.u64(static_cast<std::uint64_t>(size) - 1);
}

std::vector<int> read_levels(Reader& in) {
  std::vector<int> levels(in.below(kMostLevels + 1, "a number of levels"));
  for (int& size : levels)
    size = 1 + static_cast<int>(in.below((std::uint64_t{1} << 31) - 1, "a number of ranks"));
  return levels;
}

void write_knobs(Writer& out, const Config& config) {
  out.u64(config.fusion_threshold).u8(number_of(config.peer_memory)).string(config.cpu_operations);
  out.u8(config.deterministic ? 1 : 0).u64(static_cast<std::uint64_t>(config.tcp_streams));
  out.u64(config.gpu_fusion_threshold).string(config.gpu_operations).u8(config.float32_sums ? 1 : 0);
  out.string(config.encryption).u8(config.autotune ? 1 : 0);
  out.u8(config.levels ? 1 : 0);
  if (config.levels) write_levels(out, *config.levels);
}

void read_knobs(Reader& in, Config& config) {
  config.fusion_threshold = in.u64();
  config.peer_memory = way_of(in.below(3, "a way"));
  config.cpu_operations = in.string(16);
  config.deterministic = in.boolean();
  config.tcp_streams = static_cast<int>(in.below(kMostStreams + 1, "a number of sockets"));
  config.gpu_fusion_threshold = in.u64();
  config.gpu_operations = in.string(16);
  config.float32_sums = in.boolean();
  config.encryption = in.string(16);
  config.autotune = in.boolean();
  config.levels = in.boolean() ? std::optional(read_levels(in)) : std::nullopt;
}

std::string described_levels(const Config& config) {
  if (!config.levels) return "auto";
  return config.levels->empty() ? "0" : fmt::format("{}", fmt::join(*config.levels, ","));
}

std::vector<Item> listed(const Config& config) {
  return {{"HORA_FUSION_THRESHOLD", std::to_string(config.fusion_threshold)},
          {"HORA_PEER_MEMORY", config.peer_memory ? std::to_string(*config.peer_memory ? 1 : 0) : "auto"},
          {"HORA_CPU_OPERATIONS", config.cpu_operations},
          {"HORA_DETERMINISTIC", config.deterministic ? "1" : "0"},
          {"HORA_TCP_STREAMS", std::to_string(config.tcp_streams)},
          {"HORA_GPU_FUSION_THRESHOLD", std::to_string(config.gpu_fusion_threshold)},
          {"HORA_GPU_OPERATIONS", config.gpu_operations},
          {"HORA_FLOAT32_SUMS", config.float32_sums ? "1" : "0"},
          {"HORA_ENCRYPTION", config.encryption},
          {"HORA_AUTOTUNE", config.autotune ? "1" : "0"},
          {"HORA_LEVELS", described_levels(config)}};
}

/// All that a rank says. The version comes first: what follows is that version's.
Bytes own_words(const Config& config) {
  Writer out;
  out.string(version()).string(own_arguments());
  write_knobs(out, config);
  return out.take();
}

void require_one_version(const std::vector<Bytes>& all, const std::vector<Member>& members) {
  const std::string first = Reader(all.front()).string(kLongestVersion);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::string other = Reader(all[rank]).string(kLongestVersion);
    if (other == first) continue;
    throw Error(Code::invalid_argument,
                fmt::format("{} has Hora {}, and {} Hora {}: install the same on all hosts",
                            describe(members[rank]), other, describe(members.front()), first));
  }
}

void warn(const std::string& of_what, std::vector<std::vector<Item>> lists) {
  std::vector<int> ranks(lists.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const auto& line : describe_differences(std::move(lists), ranks))
    log(LogLevel::warning, fmt::format("{}: {}", of_what, line));
}

}  // namespace

void agree(Config& config, Control& control, const std::vector<Member>& members, TimePoint deadline) {
  const auto all = exchange(control, own_words(config), deadline);
  require_one_version(all, members);
  std::vector<std::vector<Item>> arguments;
  std::vector<std::vector<Item>> knobs;
  for (auto rank = all.size(); rank-- > 0;) {  // rank 0 comes last: what it says counts
    Reader in(all[rank]);
    static_cast<void>(in.string(kLongestVersion));
    arguments.insert(arguments.begin(), {{"arguments", fmt::format("\"{}\"", in.string(kLongestArguments))}});
    read_knobs(in, config);
    in.finish();
    knobs.insert(knobs.begin(), listed(config));
  }
  if (control.rank() != 0) return;
  warn("ranks were started with other arguments", std::move(arguments));
  warn("ranks have other settings, and those of rank 0 count", std::move(knobs));
}

}  // namespace hora
