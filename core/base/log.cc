// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include "core/base/line_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace hora {
namespace {

constexpr std::array<std::string_view, 4> kNames{"error", "warning", "info", "debug"};

// Process-wide, as stderr is. Relaxed: a line more or less around a change is all the same.
std::atomic<LogLevel> g_least{LogLevel::warning};
std::atomic<int> g_rank{-1};

constexpr std::chrono::seconds kMostAtExit{1};  // for lines that nobody has read yet

/// Lives as long as the process: threads log until its end.
LineWriter& writer() {
  static LineWriter& one = *[] {
    auto made = std::make_unique<LineWriter>(STDERR_FILENO);
    ::pthread_atfork([] { writer().before_fork(); }, [] { writer().after_fork(false); },
                     [] { writer().after_fork(true); });
    std::atexit([] { writer().flush(kMostAtExit); });
    return made.release();
  }();
  return one;
}

}  // namespace

void set_log(std::string_view least, int rank) {
  const auto level = std::find(kNames.begin(), kNames.end(), least) - kNames.begin();
  g_least.store(static_cast<LogLevel>(level), std::memory_order_relaxed);
  g_rank.store(rank, std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message) {
  if (level > g_least.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const int rank = g_rank.load(std::memory_order_relaxed);
  std::string line = fmt::format("hora {:%H:%M:%S}.{:03} {}{}: {}\n",
                                 fmt::localtime(std::chrono::system_clock::to_time_t(now)), millis,
                                 rank < 0 ? std::string() : fmt::format("rank {} ", rank),
                                 kNames.at(static_cast<std::size_t>(level)), message);
  writer().write(std::move(line));
}

}  // namespace hora
