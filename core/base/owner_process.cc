// SPDX-License-Identifier: Apache-2.0
#include "core/base/owner_process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

namespace hora {
namespace {

/// This process. A child writes it in `fork`, while it has no other thread.
struct {
  pid_t pid = ::getpid();
  int forks = 0;  // that lead from the process which loaded Hora to this one
} here;

[[maybe_unused]] const int kIsCounting = ::pthread_atfork(nullptr, nullptr, [] {
  here.pid = ::getpid();
  ++here.forks;
});

}  // namespace

OwnerProcess::OwnerProcess() : pid_(here.pid), forks_(here.forks) {}

bool OwnerProcess::is_this() const { return forks_ == here.forks; }

void OwnerProcess::check() const {
  if (is_this()) return;
  throw Error(Code::unavailable,
              fmt::format("this process (pid {}) was forked from the rank (pid {}) and is none: "
                          "only the rank itself can use Hora",
                          here.pid, pid_));
}

}  // namespace hora
