// SPDX-License-Identifier: Apache-2.0
#include "core/base/owner_process.h"

#include <pthread.h>
#include <unistd.h>

namespace hora {
namespace {

/// How many forks lead from the process that loaded Hora to this one. A child writes it in `fork`, while it
/// has no other thread.
int forks = 0;

[[maybe_unused]] const int kIsCounting = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

OwnerProcess::OwnerProcess() : pid_(::getpid()), forks_(forks) {}

bool OwnerProcess::is_this() const { return forks_ == forks; }

}  // namespace hora
