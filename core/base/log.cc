// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>

namespace hora {
namespace {

constexpr std::array<std::string_view, 4> kNames{"error", "warning", "info", "debug"};

// Process-wide, as stderr is. Relaxed: a line more or less around a change is all the same.
std::atomic<LogLevel> g_least{LogLevel::warning};
std::atomic<int> g_rank{-1};

}  // namespace

void set_log(LogLevel least, int rank) {
  g_least.store(least, std::memory_order_relaxed);
  g_rank.store(rank, std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message) {
  if (level > g_least.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const int rank = g_rank.load(std::memory_order_relaxed);
  const std::string line = fmt::format("hora {:%H:%M:%S}.{:03} {}{}: {}\n",
                                       fmt::localtime(std::chrono::system_clock::to_time_t(now)), millis,
                                       rank < 0 ? std::string() : fmt::format("rank {} ", rank),
                                       kNames.at(static_cast<std::size_t>(level)), message);
  // One write, so that lines of several processes do not mix. There is nobody to tell if it fails.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hora
