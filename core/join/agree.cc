// SPDX-License-Identifier: Apache-2.0
#include "core/join/agree.h"

#include "core/base/bytes.h"
#include "core/base/knobs.h"
#include "core/base/log.h"
#include "core/join/differences.h"
#include "core/join/exchange.h"

#include <hora/hora.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <system_error>

namespace hora {
namespace {

constexpr std::size_t kLongestVersion = 64;
constexpr std::size_t kLongestValue = 256;       // of a knob
constexpr std::size_t kLongestArguments = 1024;  // what is longer is compared up to there

/// The words that this process was started with, after the program's name; files by their whole paths.
std::string own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  words.erase(0, words.find('\0') + 1);
  if (words.find("--multiprocessing-fork") != std::string::npos) return {};  // Python's own, of each process
  std::string arguments;
  std::istringstream in(words);
  for (std::string word; std::getline(in, word, '\0');) {
    if (!arguments.empty()) arguments += ' ';
    std::error_code is_no_file;  // launchers that start ranks from a rank name the script by its whole path
    const auto path = std::filesystem::canonical(word, is_no_file);
    arguments += is_no_file || !std::filesystem::is_regular_file(path, is_no_file) ? word : path.string();
  }
  arguments.resize(std::min(arguments.size(), kLongestArguments));
  return arguments;
}

template <typename Use>
void for_knobs_of_the_job(const Use& use) {
  for (const auto& knob : knobs()) {
    if (knob.of == KnobOf::job) use(knob);
  }
}

void write_knobs(Writer& out, const Config& config) {
  for_knobs_of_the_job([&](const Knob& knob) { out.string(knob.format(config)); });
}

void read_knobs(Reader& in, Config& config) {
  for_knobs_of_the_job(
      [&](const Knob& knob) { knob.parse(config, knob.variable, in.string(kLongestValue)); });
}

std::vector<Item> listed(const Config& config) {
  std::vector<Item> items;
  for_knobs_of_the_job([&](const Knob& knob) { items.push_back({knob.variable, knob.format(config)}); });
  return items;
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
