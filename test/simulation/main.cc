// SPDX-License-Identifier: Apache-2.0
// simulate SEEDS [FIRST [RANKS]]: jobs of so many seeds, from the first one on. A failure is printed with all
// events before it.
#include "test/simulation/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  const auto number = [&](int index, std::uint64_t otherwise) {
    return count > index ? std::strtoull(words[index], nullptr, 10) : otherwise;
  };
  const std::uint64_t seeds = number(1, 1000);
  const std::uint64_t first = number(2, 0);
  const auto ranks = static_cast<int>(number(3, 0));
  std::uint64_t wrongs = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const hora::Plan plan = hora::plan_of(seed, ranks);
    hora::Job job(plan);
    const std::string wrong = job.run();
    if (wrong.empty()) continue;
    ++wrongs;
    for (const auto& line : job.history()) fmt::print("{}\n", line);
    fmt::print("seed {}: {} of rank {} of {}: {}\n", seed, hora::name(plan.fault), plan.faulty_rank,
               plan.ranks, wrong);
  }
  fmt::print("{} jobs, {} went wrong\n", seeds, wrongs);
  return wrongs == 0 ? 0 : 1;
}
