// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/leave_on_sigterm.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

namespace hora {
namespace {

// The handler runs in any thread. It counts itself in `running` before it looks at `leaving`; forget_sigterm
// clears `leaving` before it looks at `running`. All four are sequentially consistent, so one of them sees
// the other: the Generations are not used after forget_sigterm has returned.
std::atomic<Generations*> leaving{nullptr};
std::atomic<int> running{0};
std::atomic<pid_t> owner{0};
std::atomic<const Generations*> asked{nullptr};
static_assert(std::atomic<Generations*>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler uses them");

extern "C" void ask_to_leave_at(int number) {
  const int error = errno;
  ++running;
  std::signal(number, SIG_DFL);
  Generations* const generations = leaving.exchange(nullptr);
  if (generations != nullptr && ::getpid() == owner) {
    asked = generations;
    generations->ask_to_leave();
  } else {
    ::raise(number);
  }
  --running;
  errno = error;
}

}  // namespace

void leave_on_sigterm(Generations& generations) {
  struct sigaction action{};
  if (asked == &generations || ::sigaction(SIGTERM, nullptr, &action) != 0 || action.sa_handler != SIG_DFL)
    return;
  owner = ::getpid();
  leaving = &generations;
  action.sa_handler = ask_to_leave_at;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

void forget_sigterm(const Generations& generations) {
  auto* followed = const_cast<Generations*>(&generations);
  if (leaving.compare_exchange_strong(followed, nullptr)) {
    struct sigaction action{};
    if (::sigaction(SIGTERM, nullptr, &action) == 0 && action.sa_handler == ask_to_leave_at)
      std::signal(SIGTERM, SIG_DFL);
  }
  while (running > 0) std::this_thread::yield();
  const Generations* former = &generations;
  asked.compare_exchange_strong(former, nullptr);
}

}  // namespace hora
