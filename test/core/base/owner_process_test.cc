// SPDX-License-Identifier: Apache-2.0
#include "core/base/owner_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hora {
namespace {

/// The exit code of a forked child that calls this.
template <typename Check>
int in_a_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(OwnerProcess, IsNoChildAndNoGrandchildOfItself) {
  const OwnerProcess owner;
  EXPECT_EQ(in_a_child([&] {
              if (owner.is_this() || owner.pid() != ::getppid()) return 1;
              const OwnerProcess child;
              if (!child.is_this() || child.pid() != ::getpid()) return 2;
              return in_a_child([&] { return owner.is_this() || child.is_this() ? 3 : 0; });
            }),
            0);
  EXPECT_TRUE(owner.is_this());
  EXPECT_EQ(owner.pid(), ::getpid());
}

}  // namespace
}  // namespace hora
