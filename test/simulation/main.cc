// SPDX-License-Identifier: Apache-2.0
// simulate [elastic] SEEDS [FIRST [RANKS]]: jobs of so many seeds, from the first one on; or elastic jobs. A
// failure is printed with all events before it.
#include "test/simulation/elastic/job.h"
#include "test/simulation/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

/// Whether this job goes wrong; then its events are printed, and `seed` with what is to be known of its plan.
template <typename Simulated>
bool goes_wrong(Simulated job, const std::string& seed) {
  const std::string wrong = job.run();
  if (wrong.empty()) return false;
  for (const auto& line : job.history()) fmt::print("{}\n", line);
  fmt::print("seed {}: {}\n", seed, wrong);
  return true;
}

bool goes_wrong(std::uint64_t seed, int ranks) {
  const hora::Plan plan = hora::plan_of(seed, ranks);
  return goes_wrong(hora::Job(plan), fmt::format("{}: {} of rank {} of {}", seed, hora::name(plan.fault),
                                                 plan.faulty_rank, plan.ranks));
}

}  // namespace

int main(int count, char** given) {
  std::vector<std::string> words(given + 1, given + count);
  const bool elastic = !words.empty() && words.front() == "elastic";
  if (elastic) words.erase(words.begin());
  const auto number = [&](std::size_t index, std::uint64_t otherwise) {
    return words.size() > index ? std::strtoull(words[index].c_str(), nullptr, 10) : otherwise;
  };
  const std::uint64_t seeds = number(0, 1000);
  const std::uint64_t first = number(1, 0);
  const auto ranks = static_cast<int>(number(2, 0));
  std::uint64_t wrongs = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed)
    wrongs += (elastic ? goes_wrong(hora::elastic::ElasticJob(hora::elastic::elastic_plan_of(seed)),
                                    std::to_string(seed))
                       : goes_wrong(seed, ranks))
                  ? 1
                  : 0;
  fmt::print("{} jobs, {} went wrong\n", seeds, wrongs);
  return wrongs == 0 ? 0 : 1;
}
