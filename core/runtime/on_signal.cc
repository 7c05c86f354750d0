// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/on_signal.h"

#include "core/base/thread.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace hora {
namespace {

constexpr int kSignals = 65;

/// An event fd that a signal rings; free where there is no signal.
struct Rope {
  std::atomic<int> signal{0};
  std::atomic<int> event_fd{-1};
  std::atomic<pid_t> owner{0};
};

// A handler has nothing but static objects, which need no constructor to run. Ropes are written under
// g_ropes_mutex, the descriptor last; `g_former` of a signal before its handler is installed.
std::array<Rope, 32> g_ropes;
std::array<struct sigaction, kSignals> g_former;
std::mutex g_ropes_mutex;

void ring_ropes(int signal) {
  const std::uint64_t one = 1;
  for (auto& rope : g_ropes) {
    const int event_fd = rope.event_fd.load();
    if (event_fd < 0 || rope.signal.load() != signal || rope.owner.load() != ::getpid()) continue;
    [[maybe_unused]] const auto written = ::write(event_fd, &one, sizeof one);
  }
}

void handle_signal(int signal, siginfo_t* info, void* machine) {
  const int kept = errno;
  ring_ropes(signal);
  const struct sigaction& former = g_former[static_cast<std::size_t>(signal)];
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(signal, info, machine);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  }
  errno = kept;
}

void install(int signal) {
  struct sigaction found{};
  ::sigaction(signal, nullptr, &found);
  if ((found.sa_flags & SA_SIGINFO) != 0 && found.sa_sigaction == handle_signal) return;
  g_former.at(static_cast<std::size_t>(signal)) = found;
  struct sigaction ours{};
  ours.sa_sigaction = handle_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(signal, &ours, nullptr);
}

void tie(int signal, int event_fd) {
  const std::lock_guard lock(g_ropes_mutex);
  for (auto& rope : g_ropes) {
    if (rope.signal.load() != 0) continue;
    rope.signal = signal;
    rope.owner = ::getpid();
    rope.event_fd = event_fd;
    return install(signal);
  }
  throw Error(Code::unavailable,
              fmt::format("signal {} cannot be listened to by more than {}", signal, g_ropes.size()));
}

void untie(int event_fd) {
  const std::lock_guard lock(g_ropes_mutex);
  for (auto& rope : g_ropes) {
    if (rope.event_fd.load() != event_fd) continue;
    rope.event_fd = -1;
    rope.signal = 0;
  }
}

}  // namespace

OnSignal::OnSignal(int signal, std::function<void()> notice) : signal_(signal), notice_(std::move(notice)) {
  if (signal_ == 0) return;
  tie(signal_, event_fd_.event().fd);
  thread_ = start_thread("waits for signals", [this] { listen(); });
}

OnSignal::~OnSignal() {
  if (signal_ == 0) return;
  untie(event_fd_.event().fd);
  ending_ = true;
  event_fd_.ring();
  thread_.join();
}

void OnSignal::listen() {
  while (true) {
    await_events(event_fd_.event().fd, POLLIN, TimePoint::max());
    event_fd_.silence();
    if (ending_) return;
    notice_();
  }
}

}  // namespace hora
