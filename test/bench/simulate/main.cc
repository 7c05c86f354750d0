// SPDX-License-Identifier: Apache-2.0
// bench_simulate [--ranks 8,64] [--radix 0,8] [--tensors 161] [--hop-us 25] [--message-us 2] [--byte-ns 1]
// [--json FILE]: how long ranks take to agree, simulated. All of it is the real negotiation but for the
// network.
#include "test/bench/simulate/scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::array<std::string_view, 7> kOptions{"--ranks",      "--radix",   "--tensors", "--hop-us",
                                                   "--message-us", "--byte-ns", "--json"};

std::vector<int> numbers(const std::string& list) {
  std::vector<int> all;
  for (std::size_t at = 0; at < list.size();
       at = list.find(',', at) == std::string::npos ? list.size() : list.find(',', at) + 1)
    all.push_back(std::atoi(list.c_str() + at));
  return all;
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::string json(const char* name, const hora::Phase& phase) {
  return fmt::format(
      R"("{}": {{"latency_us": {:.1f}, "messages": {}, "bytes": {}, "coordinator_cpu_us": {:.1f}}})", name,
      phase.latency_us, phase.messages, phase.bytes, phase.coordinator_us);
}

void print(const char* name, const hora::Phase& phase) {
  fmt::print("    {:8} {:>12.1f} us {:>9} messages {:>12} bytes {:>12.1f} us of rank 0's CPU\n", name,
             phase.latency_us, phase.messages, phase.bytes, phase.coordinator_us);
}

}  // namespace

int main(int count, char** words) {
  std::vector<int> ranks{8, 64, 512, 4096, 10000};
  std::vector<int> radices{0, 4, 8, 16};
  int tensors = 161;
  hora::Costs costs;
  std::string file;
  for (int i = 1; i < count; i += 2) {
    const std::string option = words[i];
    const bool known = std::ranges::find(kOptions, option) != kOptions.end();
    if (!known || i + 1 == count) {
      fmt::print(stderr, "bench_simulate: {} {}; options: {}\n",
                 known ? "no value for" : "there is no option", option, fmt::join(kOptions, ", "));
      return 2;
    }
    const std::string value = words[i + 1];
    const auto time = std::chrono::nanoseconds(static_cast<std::int64_t>(1000 * std::atof(value.c_str())));
    if (option == "--ranks") ranks = numbers(value);
    if (option == "--radix") radices = numbers(value);
    if (option == "--tensors") tensors = std::atoi(value.c_str());
    if (option == "--hop-us") costs.hop = time;
    if (option == "--message-us") costs.message = time;
    if (option == "--byte-ns") costs.byte_ns = std::atof(value.c_str());
    if (option == "--json") file = value;
  }
  constexpr int kMostThatShareMemory = 512;  // of those that are tried; of any more no machine has processors
  std::vector<std::string> rows;
  fmt::print(
      "simulated: {} tensors; a message takes {} us, and {} us and {} ns a byte of its sender's time\n",
      tensors, microseconds(costs.hop), microseconds(costs.message), costs.byte_ns);
  for (const int size : ranks) {
    for (const int radix : radices) {
      if (radix >= size) continue;
      const auto outcome = hora::simulate(size, radix, tensors, costs, false);
      fmt::print("  simulated: {} ranks, {}\n", size,
                 radix == 0 ? "a star" : fmt::format("a tree of radix {}, {} levels", radix, outcome.levels));
      std::string row =
          fmt::format(R"({{"simulated": true, "ranks": {}, "radix": {}, "levels": {}, {}, {}, {})", size,
                      radix, outcome.levels, json("cold", outcome.cold), json("cached", outcome.cached),
                      json("steady", outcome.steady));
      print("cold", outcome.cold);
      print("cached", outcome.cached);
      print("steady", outcome.steady);
      if (size <= kMostThatShareMemory) {
        const auto locked = hora::simulate(size, radix, tensors, costs, true).locked;
        print("locked", *locked);
        row += ", " + json("locked", *locked);
      }
      rows.push_back(row + "}");
      std::fflush(stdout);
    }
  }
  if (!file.empty()) {
    std::ofstream(file) << fmt::format(
        R"({{"simulated": true, "tensors": {}, "hop_us": {}, "message_us": {}, "byte_ns": {}, "rows": [)"
        "\n{}\n]}}\n",
        tensors, microseconds(costs.hop), microseconds(costs.message), costs.byte_ns, fmt::join(rows, ",\n"));
  }
  return 0;
}
