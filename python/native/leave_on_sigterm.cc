// SPDX-License-Identifier: Apache-2.0
#include "python/native/leave_on_sigterm.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

namespace hora {
namespace {

// The handler runs in any thread. It counts itself in `running` before it looks at `leaving`; forget_sigterm
// clears `leaving` before it looks at `running`. All four are sequentially consistent, so one of them sees
// the other: the Runtime is not used after forget_sigterm has returned.
std::atomic<Runtime*> leaving{nullptr};
std::atomic<int> running{0};
std::atomic<pid_t> owner{0};
std::atomic<bool> asked{false};
static_assert(std::atomic<Runtime*>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler uses them");

extern "C" void ask_to_leave_at(int number) {
  const int error = errno;
  ++running;
  std::signal(number, SIG_DFL);
  Runtime* const runtime = leaving.exchange(nullptr);
  if (runtime != nullptr && ::getpid() == owner) {
    asked = true;
    runtime->ask_to_leave();
  } else {
    ::raise(number);
  }
  --running;
  errno = error;
}

}  // namespace

void leave_on_sigterm(Runtime& runtime) {
  struct sigaction action{};
  if (asked || ::sigaction(SIGTERM, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  owner = ::getpid();
  leaving = &runtime;
  action.sa_handler = ask_to_leave_at;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

void forget_sigterm() {
  if (leaving.exchange(nullptr) != nullptr) {
    struct sigaction action{};
    if (::sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == ask_to_leave_at)
      std::signal(SIGTERM, SIG_DFL);
  }
  while (running > 0) std::this_thread::yield();
  asked = false;
}

}  // namespace hora
