// SPDX-License-Identifier: Apache-2.0
// hrun -np N watch_cost [PAIRS]: the cost of Hora's watch over a job. Steps that reduce the gradients of
// ResNet-50 (161 tensors, 102 MB) in jobs that take turns: one as it is by default, one without recorder,
// heartbeats, lateness and time limits. Other load of a machine only adds to a time: the figures are
// those of the fastest twentieth of all steps. On a shared machine they differ by more than what is looked
// for; so what is done for each operation, to record it and to watch it, is also timed by itself.
#include "core/watch/recorder.h"
#include "core/watch/watchdog.h"
#include "test/bench/resnet50.h"

#include <hora/hora.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace hora {
namespace {

constexpr int kWarmUp = 5;
constexpr int kSteps = 25;

/// That which a twentieth of the values are below.
double low(std::vector<double>& values) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 20);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

std::string name_of(std::size_t tensor) { return fmt::format("gradient.layer.{}.weight", tensor); }

/// Adds the milliseconds that the steps of a job take.
void time_steps(const Config& config, const std::vector<std::int64_t>& sizes, std::vector<double>& times) {
  Runtime hora(config);
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const auto size : sizes)
    memory.push_back(hora.allocate(static_cast<std::size_t>(size) * sizeof(float)));
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Handle> handles;
    for (std::size_t i = sizes.size(); i-- > 0;) {  // as backward() makes them
      Entry entry;
      entry.name = name_of(i);
      entry.shape = {sizes[i]};
      entry.input = entry.output = memory[i].get();
      handles.push_back(hora.submit(std::move(entry)));
    }
    for (const auto& handle : handles) handle.wait();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (step >= kWarmUp) times.push_back(time.count());
  }
}

/// Milliseconds in which the operations of a step are recorded, and watched as if each went by itself.
double watching_time(const std::vector<std::int64_t>& sizes) {
  constexpr int kRounds = 1000;
  Recorder recorder(Config().recorded_operations);
  Watchdog dog(Config().operation_timeout, [] { return std::uint64_t{0}; }, [](const Status&) {});
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) names.push_back(name_of(i));
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Watch watch(dog, Operation::allreduce, names[i], 0);
      Record record;
      record.name = names[i];
      record.shape = {sizes[i]};
      record.finished = Clock::now();
      recorder.add(std::move(record));
    }
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return time.count() / kRounds;
}

Config unwatched(Config config) {
  config.recorded_operations = 0;
  config.heartbeat_timeout = {};
  config.straggler_steps = 0;
  config.missing_warning = config.missing_timeout = config.operation_timeout = {};
  return config;
}

void run(int pairs) {
  const Config config = Config::from_environment();
  const auto sizes = bench::resnet50();
  std::vector<double> with;
  std::vector<double> without;
  for (int pair = 0; pair < pairs; ++pair) {
    if (pair % 2 == 0) time_steps(config, sizes, with);
    time_steps(unwatched(config), sizes, without);
    if (pair % 2 == 1) time_steps(config, sizes, with);
  }
  if (config.rank != 0) return;
  const double watched = low(with);
  const double bare = low(without);
  fmt::print(
      "{} tensors on {} ranks, {} steps each: one takes {:.3f} ms watched, {:.3f} ms unwatched: {:+.2f} %\n",
      sizes.size(), config.size, with.size(), watched, bare, 100 * (watched / bare - 1));
  const double watching = watching_time(sizes);
  fmt::print("to record and to watch {} operations takes {:.3f} ms: {:.2f} % of a step\n", sizes.size(),
             watching, 100 * watching / bare);
}

}  // namespace
}  // namespace hora

int main(int count, char** words) {
  hora::run(count > 1 ? std::atoi(words[1]) : 21);
  return 0;
}
