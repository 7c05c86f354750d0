// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/early_ends.h"

#include "core/base/clock.h"
#include "core/base/thread.h"

#include <hora/status.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

namespace hora::hrun {
namespace {

/// After that a process is not ending: the thread that held the mutex has ended by itself, or the process has
/// become another program.
constexpr std::chrono::seconds kLongest{2};
constexpr std::chrono::microseconds kPause{100};  // between two looks

/// Fields of /proc/<process>/stat and /proc/<process>/task/<thread>/stat, with their numbers in proc(5).
struct Stat {
  std::uint64_t flags = 0;  // 9
  int exit_code = 0;        // 52; 0 as well if the reader may not know it
};

std::optional<Stat> read_stat(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto name_end = text.rfind(')');  // the name of the program may contain anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  const std::vector<std::string> from_third{std::istream_iterator<std::string>(fields), {}};
  if (from_third.size() < 50) return std::nullopt;
  return Stat{std::stoull(from_third[9 - 3]), std::stoi(from_third[52 - 3])};
}

bool is_ending(const Stat& stat) {
  constexpr std::uint64_t kExiting = 4;  // PF_EXITING of the kernel's include/linux/sched.h
  return (stat.flags & kExiting) != 0;
}

/// Whether all threads of a process are ending in the kernel, or are gone.
bool all_threads_are_ending(const std::filesystem::path& process) {
  for (const auto& thread : std::filesystem::directory_iterator(process / "task")) {
    const auto stat = read_stat(thread.path() / "stat");
    if (stat && !is_ending(*stat)) return false;
  }
  return true;
}

/// The wait status of a process once all its threads are ending. Nothing: it does not end, or ends with exit
/// code 0, or the system does not tell. Throws std::exception as well if it does not.
std::optional<int> await_status(pid_t pid) {
  const auto process = std::filesystem::path("/proc") / std::to_string(pid);
  for (const TimePoint latest = Clock::now() + kLongest; Clock::now() < latest;) {
    const auto stat = read_stat(process / "stat");
    if (!stat) return std::nullopt;  // waitpid has told of it
    if (stat->exit_code != 0 && all_threads_are_ending(process)) return stat->exit_code;
    std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

}  // namespace

void EarlyEnds::follow(pid_t child, std::shared_ptr<LifeMutex> mutex) {
  auto watch = [child, mutex = std::move(mutex), shared = shared_] {
    // With a program between hrun and the process, such as a shell, that one's end counts.
    if (mutex->await_end() != child) return;
    try {
      const auto status = await_status(child);
      if (!status) return;
      const std::lock_guard lock(shared->mutex);
      shared->ends.push_back({child, *status});
    } catch (const std::exception&) {
      return;
    }
    shared->event.ring();
  };
  try {
    start_thread("waits for the end of a process", std::move(watch)).detach();
  } catch (const Error&) {
    return;
  }
}

std::vector<EarlyEnds::End> EarlyEnds::take() {
  shared_->event.silence();
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->ends, {});
}

}  // namespace hora::hrun
