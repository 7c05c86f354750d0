// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/leave_on_sigterm.h"

#include "test/support/elastic_launcher.h"
#include "test/support/elastic_process.h"
#include "test/support/processes.h"

#include <hora/hora.h>

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>

namespace hora {
namespace {

bool ends_the_process(int signal) {
  struct sigaction action{};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_DFL;
}

void raise_and_go_on(Runtime& hora) {
  hora.leave_on_sigterm();
  EXPECT_FALSE(ends_the_process(SIGTERM));
  ::raise(SIGTERM);
  EXPECT_TRUE(ends_the_process(SIGTERM)) << "a second one";
  hora.leave_on_sigterm();
  EXPECT_TRUE(ends_the_process(SIGTERM)) << "it has asked already";
}

TEST(LeaveOnSigterm, AsksOnce) {
  const auto ends = run_processes(1, [](int /*rank*/) {
    ElasticLauncher launcher(policy_for(1));
    Runtime hora(launcher.settings(0));
    raise_and_go_on(hora);
  });
  EXPECT_EQ(ends.front(), 0);
}

TEST(LeaveOnSigterm, EndsAForkedChild) {
  const auto ends = run_processes(1, [](int /*rank*/) {
    ElasticLauncher launcher(policy_for(1));
    Runtime hora(launcher.settings(0));
    hora.leave_on_sigterm();
    const auto of_child = run_processes(1, [](int /*rank*/) { ::raise(SIGTERM); });
    EXPECT_TRUE(WIFSIGNALED(of_child.front()) && WTERMSIG(of_child.front()) == SIGTERM);
    hora.shutdown();
    EXPECT_TRUE(ends_the_process(SIGTERM));
  });
  EXPECT_EQ(ends.front(), 0);
}

TEST(LeaveOnSigterm, ChangesNothingElsewhere) {
  const auto ends = run_processes(1, [](int /*rank*/) {
    Runtime alone{Config{}};
    alone.leave_on_sigterm();
    EXPECT_TRUE(ends_the_process(SIGTERM)) << "the job is not elastic";
    ElasticLauncher launcher(policy_for(1));
    Runtime hora(launcher.settings(0));
    std::signal(SIGTERM, SIG_IGN);
    hora.leave_on_sigterm();
    hora.shutdown();
    EXPECT_FALSE(ends_the_process(SIGTERM)) << "the program handles it itself";
  });
  EXPECT_EQ(ends.front(), 0);
}

}  // namespace
}  // namespace hora
