// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stack.h"

#include "core/base/demangled.h"
#include "core/base/full_traces.h"
#include "core/watch/own_frames.h"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <sstream>
#include <string_view>

namespace hora {
namespace {

constexpr int kSignal = SIGURG;
constexpr int kMostFrames = 32;
constexpr int kOwnFrames = 2;          // the handler, and what the kernel returns to
constexpr int kRestMilliseconds = 20;  // after a piece, for the next
constexpr std::size_t kMostBytes = 8192;
using Handler = void (*)(int);

// The handler reads `writer` alone, which is set before it is installed and never again.
int writer = -1;
std::mutex mutex;
// Under the mutex:
int reader = -1;
Handler installed = nullptr;

void write_stack(int) {
  const int error = errno;
  std::array<void*, kMostFrames> frames;
  const int count = ::backtrace(frames.data(), kMostFrames);
  if (count > kOwnFrames) ::backtrace_symbols_fd(frames.data() + kOwnFrames, count - kOwnFrames, writer);
  errno = error;
}

Handler present_handler() {
  struct sigaction action{};
  return ::sigaction(kSignal, nullptr, &action) == 0 ? action.sa_handler : nullptr;
}

bool readable(int milliseconds) {
  pollfd event{reader, POLLIN, 0};
  return ::poll(&event, 1, milliseconds) > 0;
}

/// The text that is in the pipe, or comes within `milliseconds`.
std::string read_pipe(int milliseconds) {
  std::string text;
  std::array<char, 1024> buffer;
  while (text.size() < kMostBytes && readable(milliseconds)) {
    const auto got = ::read(reader, buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    milliseconds = kRestMilliseconds;
  }
  return text;
}

/// "./train(_ZN3foo3barEv+0x1f) [0x55...]" as "foo::bar() in ./train"; other lines as they are.
std::string readable_frame(const std::string& line) {
  const auto open = line.find('(');
  const auto plus = line.find('+', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || plus == std::string::npos) return line;
  const std::string symbol = line.substr(open + 1, plus - open - 1);
  if (symbol.empty()) return line.substr(0, line.find(" ["));
  return demangled(symbol.c_str()) + " in " + line.substr(0, open);
}

std::string as_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with("(most recent call first):")) continue;  // the head of Python's
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    if (!result.empty()) result += '\n';
    result += "    " + readable_frame(line.substr(begin));
  }
  return result;
}

}  // namespace

void install_stack_signal() {
  const std::lock_guard lock(mutex);
  const Handler present = present_handler();
  if (present != SIG_DFL && present != SIG_IGN) return;
  std::array<int, 2> ends{};
  if (reader < 0) {
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    reader = ends[0];
    writer = ends[1];
  }
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads what unwinds, which a handler must not
  struct sigaction action{};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  if (::sigaction(kSignal, &action, nullptr) == 0) installed = write_stack;
}

StackSignal stack_signal() {
  const std::lock_guard lock(mutex);
  const bool ours = installed != nullptr && present_handler() == installed;
  return {kSignal, ours ? writer : -1};
}

void adopt_stack_handler() {
  const std::lock_guard lock(mutex);
  installed = present_handler();
}

std::string main_thread_stack(std::chrono::milliseconds time) {
  const std::lock_guard lock(mutex);
  if (installed == nullptr || present_handler() != installed) return {};
  read_pipe(0);  // drops text that came too late the last time
  const pid_t process = ::getpid();
  if (::syscall(SYS_tgkill, process, process, kSignal) != 0) return {};
  const std::string lines = as_lines(read_pipe(static_cast<int>(time.count())));
  return full_traces() ? lines : own_frames(lines);
}

}  // namespace hora
