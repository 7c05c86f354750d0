// SPDX-License-Identifier: Apache-2.0
#include "test/bench/measure.h"

#include "test/bench/pattern.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace hora::bench {
namespace {

constexpr std::size_t kBytesInABlock = 256 << 20;

int iterations_for(const Options& options, std::size_t bytes) {
  if (options.iterations > 0) return options.iterations;
  return static_cast<int>(std::clamp<std::size_t>(kBytesInABlock / bytes, 3, 200));
}

/// That which this share of the values do not exceed.
double quantile(std::vector<double> values, double share) {
  const auto nth = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  const auto at = values.begin() + std::min(nth, std::ssize(values) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The figures of one contender as they come in.
struct Running {
  std::vector<double> seconds;
  std::vector<double> medians;  // of blocks
  std::size_t wrong = 0;
};

/// One call of one contender: when this rank began, when it ended.
struct Span {
  double begin = 0;
  double end = 0;
};

Span time_call(Contender& contender, const Group& group, const Options& options, std::size_t count,
               Pattern& pattern, int iteration) {
  pattern.begin(group.rank, iteration);
  if (!contender.produces()) pattern.write(contender.data(), 0, count);
  group.barrier();
  std::this_thread::sleep_for(options.pause);
  Span span;
  span.begin = now();
  if (contender.produces())
    contender.produce_and_run(
        [&](std::size_t first, std::size_t many) { pattern.write(contender.data(), first, many); });
  else
    contender.run(count);
  span.end = now();
  group.barrier();
  return span;
}

/// One block: appends when each iteration began and ended on this rank; how many elements were wrong.
std::size_t run_block(Contender& contender, const Group& group, const Options& options, std::size_t count,
                      int iterations, std::vector<double>& times) {
  Pattern pattern(options.dtype, options.op, group.ranks);
  std::size_t wrong = 0;
  for (int i = -options.warmup; i < iterations; ++i) {
    const int iteration = i + options.warmup;
    const Span span = time_call(contender, group, options, count, pattern, iteration);
    if (contender.is_exact()) wrong += pattern.wrong(contender.data(), count, iteration);
    if (i >= 0) times.insert(times.end(), {span.begin, span.end});
  }
  return wrong;
}

/// The times of an iteration, from the reports of all ranks.
struct Iteration {
  double last_begin = 0;
  double last_end = 0;
  double slowest = 0;
  double together = 0;
};

Iteration look_at(const std::vector<double>& all, std::size_t each, std::size_t iteration) {
  Iteration seen;
  for (std::size_t rank = 0; rank * each < all.size(); ++rank) {
    const double begin = all[rank * each + 2 * iteration];
    const double end = all[rank * each + 2 * iteration + 1];
    seen.last_begin = std::max(seen.last_begin, begin);
    seen.last_end = std::max(seen.last_end, end);
    seen.slowest = std::max(seen.slowest, end - begin);
    seen.together += end - begin;
  }
  return seen;
}

/// How long an iteration took. Ranks that do not wait for each other may have taken turns on a processor, so
/// that theirs is as long as all of them need on all processors.
double length_of(const Iteration& seen, const Contender& contender, const Group& group) {
  if (!contender.waits_for_others()) {
    const auto processors = std::min<std::int64_t>(group.ranks, ::sysconf(_SC_NPROCESSORS_ONLN));
    return std::max(seen.slowest, seen.together / static_cast<double>(processors));
  }
  return group.one_clock ? seen.last_end - seen.last_begin : seen.slowest;
}

void add_block(Running& running, Contender& contender, const Group& group, const Options& options,
               std::size_t count, int iterations) {
  std::vector<double> mine;
  const std::size_t wrong = run_block(contender, group, options, count, iterations, mine);
  mine.push_back(static_cast<double>(wrong));
  const std::vector<double> all = group.gather(mine);
  std::vector<double> lengths;
  for (int i = 0; i < iterations; ++i)
    lengths.push_back(length_of(look_at(all, mine.size(), static_cast<std::size_t>(i)), contender, group));
  for (std::size_t i = mine.size() - 1; i < all.size(); i += mine.size())
    running.wrong += static_cast<std::size_t>(all[i]);
  running.medians.push_back(median(lengths));
  running.seconds.insert(running.seconds.end(), lengths.begin(), lengths.end());
}

}  // namespace

Row measure(const Contenders& contenders, const Group& group, const Options& options, std::size_t bytes) {
  const std::size_t count = std::max<std::size_t>(1, bytes / size_of(options.dtype));
  const int iterations = iterations_for(options, bytes);
  std::vector<Running> running(contenders.size());
  for (int block = 0; block < options.blocks; ++block) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      add_block(running[i], *contenders[i], group, options, count, iterations);
    }
  }
  Row row{count * size_of(options.dtype), count, {}};
  for (const auto& one : running) {
    const auto [least, most] = std::minmax_element(one.medians.begin(), one.medians.end());
    row.figures.push_back({median(one.seconds), quantile(one.seconds, 0.99), quantile(one.seconds, 1.0),
                           *least, *most, one.wrong});
  }
  return row;
}

}  // namespace hora::bench
