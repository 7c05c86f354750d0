// SPDX-License-Identifier: Apache-2.0
#include "test/bench/options.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <string_view>

namespace hora::bench {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view expected) {
  throw Error(Code::invalid_argument, fmt::format("{} {}: expected {}", option, value, expected));
}

/// "8", "64K", "256M", "1G"
std::size_t size_from(std::string_view option, std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::map<std::string_view, int> shifts{{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
  const auto shift = shifts.find(unit);
  if (error != std::errc() || shift == shifts.end() || value == 0 ||
      value > (std::size_t{1} << 40 >> shift->second)) {
    refuse(option, text, "a size such as 8, 64K or 256M");
  }
  return value << shift->second;
}

int number_from(std::string_view option, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 1'000'000) {
    refuse(option, text, "a number");
  }
  return value;
}

DType dtype_from(std::string_view text) {
  const auto dtype = dtype_named(text);
  if (!dtype) refuse("--dtype", text, "float32, float16, int64, ...");
  return *dtype;
}

ReduceOp op_from(std::string_view text) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    if (name(op) == text) return op;
  }
  refuse("--op", text, "sum, min or max");
}

void set_memory(Options& options, std::string_view text) {
  if (text != "arena" && text != "private" && text != "both")
    refuse("--memory", text, "arena, private or both");
  options.arena = text != "private";
  options.private_memory = text != "arena";
}

Level level_from(std::string_view text) {
  if (text == "plane") return Level::plane;
  if (text == "hosts") return Level::hosts;
  if (text == "runtime") return Level::runtime;
  refuse("--level", text, "plane, hosts or runtime");
}

/// "arena,limit"
std::vector<std::string> names_from(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    names.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// A file with one number a line. Counts are rounded up, so that each tensor begins with a cache line.
std::vector<std::size_t> list_from(const std::string& file) {
  constexpr std::size_t kLine = 16;
  std::ifstream in(file);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; in >> count;) counts.push_back((count + kLine - 1) / kLine * kLine);
  if (counts.empty() || !in.eof()) refuse("--list", file, "a file with the elements of each tensor");
  return counts;
}

Act act_from(std::string_view text) {
  if (text == "allreduce") return Act::allreduce;
  if (text == "first") return Act::first;
  if (text == "fingerprint") return Act::fingerprint;
  throw Error(Code::invalid_argument, "the first argument is allreduce, first or fingerprint");
}

bool is_mpi(std::string_view text) {
  if (text != "mpi") refuse("--peer", text, "mpi");
  return true;
}

/// Its tensors lie side by side in one buffer, which is the only size.
void take_whole_list(Options& options) {
  if (options.level != Level::runtime || options.dtype != DType::float32)
    throw Error(Code::invalid_argument, "--list needs --level runtime, and float32");
  std::size_t total = 0;
  for (const std::size_t count : options.list) total += count;
  options.begin = options.end = total * sizeof(float);
}

}  // namespace

bool is_wanted(const Options& options, const std::string& contender) {
  return options.only.empty() || std::ranges::find(options.only, contender) != options.only.end();
}

Options parse_options(int argc, const char* const* argv) {
  Options options;
  const std::map<std::string_view, std::function<void(std::string_view)>> known{
      {"-b", [&](std::string_view text) { options.begin = size_from("-b", text); }},
      {"-e", [&](std::string_view text) { options.end = size_from("-e", text); }},
      {"-f",
       [&](std::string_view text) { options.factor = static_cast<std::size_t>(number_from("-f", text)); }},
      {"-n", [&](std::string_view text) { options.iterations = number_from("-n", text); }},
      {"-w", [&](std::string_view text) { options.warmup = number_from("-w", text); }},
      {"--blocks", [&](std::string_view text) { options.blocks = number_from("--blocks", text); }},
      {"--dtype", [&](std::string_view text) { options.dtype = dtype_from(text); }},
      {"--op", [&](std::string_view text) { options.op = op_from(text); }},
      {"--memory", [&](std::string_view text) { set_memory(options, text); }},
      {"--level", [&](std::string_view text) { options.level = level_from(text); }},
      {"--peer", [&](std::string_view text) { options.mpi = is_mpi(text); }},
      {"--only", [&](std::string_view text) { options.only = names_from(text); }},
      {"--list", [&](std::string_view text) { options.list = list_from(std::string(text)); }},
      {"--pause",
       [&](std::string_view text) {
         options.pause = std::chrono::milliseconds(number_from("--pause", text));
       }},
      {"--json", [&](std::string_view text) { options.json = text; }},
  };
  options.act = act_from(argc < 2 ? "" : argv[1]);
  for (int i = 2; i < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end()) throw Error(Code::invalid_argument, fmt::format("unknown option {}", argv[i]));
    if (i + 1 == argc) throw Error(Code::invalid_argument, fmt::format("{} needs a value", argv[i]));
    option->second(argv[i + 1]);
  }
  if (!options.list.empty()) take_whole_list(options);
  if (options.factor < 2) refuse("-f", std::to_string(options.factor), "2 or more");
  if (options.blocks < 1) refuse("--blocks", std::to_string(options.blocks), "1 or more");
  if (options.end < options.begin) throw Error(Code::invalid_argument, "-e is smaller than -b");
  return options;
}

const char* usage() {
  return "usage: hrun -np N hora_bench allreduce [options]\n"
         "       hrun -np N hora_bench first, mpirun -np N hora_bench first --peer mpi    joins, reduces one "
         "tensor, leaves\n"
         "       hora_bench fingerprint    how near each other the first two processors are right now\n"
         "       mpirun -np N hora_bench allreduce --peer mpi [options]\n"
         "  -b SIZE  -e SIZE  -f FACTOR   from, to, step (8, 256M, 2)\n"
         "  -n COUNT                      iterations in each block (as many as the size allows)\n"
         "  -w COUNT                      iterations before each block that do not count (2)\n"
         "  --blocks COUNT                blocks in which the contenders take turns (5)\n"
         "  --dtype NAME --op NAME        element type (float32); sum, min or max (sum)\n"
         "  --memory arena|private|both   where the buffers lie (both)\n"
         "  --level plane|hosts|runtime   the collective in shared memory alone, or that over sockets, or "
         "submit\n"
         "                                and wait (plane)\n"
         "  --peer mpi                    also MPI_Allreduce in the same processes\n"
         "  --only NAME,...               these contenders alone\n"
         "  --pause MS                    every rank sleeps before each call (0)\n"
         "  --list FILE                   tensors of so many elements, one a line, by submit and wait of "
         "all; "
         "last first\n"
         "  --json FILE                   the same figures for programs\n";
}

}  // namespace hora::bench
