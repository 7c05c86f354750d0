// SPDX-License-Identifier: Apache-2.0
#include "test/bench/measure.h"

#include "test/bench/pattern.h"

#include <algorithm>
#include <chrono>

namespace hora::bench {
namespace {

constexpr std::size_t kBytesInABlock = 256 << 20;

int iterations_for(const Options& options, std::size_t bytes) {
  if (options.iterations > 0) return options.iterations;
  return static_cast<int>(std::clamp<std::size_t>(kBytesInABlock / bytes, 3, 200));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The figures of one contender as they come in.
struct Running {
  std::vector<double> seconds;
  std::vector<double> medians;  // of blocks
  std::size_t wrong = 0;
};

/// One block: appends how long each iteration took on this rank; how many elements were wrong.
std::size_t run_block(Contender& contender, const Meeting& meeting, const Options& options, std::size_t count,
                      int iterations, std::vector<double>& seconds) {
  Pattern pattern(options.dtype, options.op, meeting.ranks);
  std::size_t wrong = 0;
  for (int i = -options.warmup; i < iterations; ++i) {
    const int iteration = i + options.warmup;
    pattern.fill(contender.data(), count, meeting.rank, iteration);
    meeting.barrier();
    const auto start = std::chrono::steady_clock::now();
    contender.run(count);
    const auto end = std::chrono::steady_clock::now();
    meeting.barrier();
    if (contender.is_exact()) wrong += pattern.wrong(contender.data(), count, iteration);
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(end - start).count());
  }
  return wrong;
}

void add_block(Running& running, Contender& contender, const Meeting& meeting, const Options& options,
               std::size_t count, int iterations) {
  std::vector<double> mine;
  const std::size_t wrong = run_block(contender, meeting, options, count, iterations, mine);
  mine.push_back(static_cast<double>(wrong));
  const std::vector<double> all = meeting.gather(mine);
  std::vector<double> slowest(static_cast<std::size_t>(iterations));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t at = i % mine.size();
    if (at < slowest.size())
      slowest[at] = std::max(slowest[at], all[i]);
    else
      running.wrong += static_cast<std::size_t>(all[i]);
  }
  running.medians.push_back(median(slowest));
  running.seconds.insert(running.seconds.end(), slowest.begin(), slowest.end());
}

}  // namespace

Row measure(const Contenders& contenders, const Meeting& meeting, const Options& options, std::size_t bytes) {
  const std::size_t count = std::max<std::size_t>(1, bytes / size_of(options.dtype));
  const int iterations = iterations_for(options, bytes);
  std::vector<Running> running(contenders.size());
  for (int block = 0; block < options.blocks; ++block) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      add_block(running[i], *contenders[i], meeting, options, count, iterations);
    }
  }
  Row row{count * size_of(options.dtype), count, {}};
  for (const auto& one : running) {
    const auto [least, most] = std::minmax_element(one.medians.begin(), one.medians.end());
    row.figures.push_back({median(one.seconds), *least, *most, one.wrong});
  }
  return row;
}

}  // namespace hora::bench
