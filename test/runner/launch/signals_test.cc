// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/signals.h"

#include "test/runner/own_process.h"

#include <poll.h>

#include <csignal>

namespace hora::hrun {
namespace {

TEST(Signals, ComeAsValues) {
  EXPECT_TRUE(in_own_process([] {
    Signals signals({SIGTSTP});
    for (const int signal : {SIGINT, SIGTERM, SIGTSTP}) ::kill(::getpid(), signal);
    std::vector<int> told;
    signals.take([](const Signals::Child&) {}, [&](int signal) { told.push_back(signal); });
    EXPECT_EQ(told, (std::vector<int>{SIGINT, SIGTERM, SIGTSTP}));
  }));
}

TEST(Signals, TellOfEveryChildOnce) {
  EXPECT_TRUE(in_own_process([] {
    Signals signals;
    std::vector<int> children;
    for (int code = 0; code < 3; ++code) {
      children.push_back(::fork());
      if (children.back() == 0) ::_exit(code);
    }
    const auto take = [&](const Signals::Child& child) {
      const auto code = static_cast<std::size_t>(WEXITSTATUS(child.wait_status));
      EXPECT_EQ(child.pid, children.at(code));
      children.at(code) = 0;
    };
    while (children != std::vector<int>{0, 0, 0}) {
      await_events(signals.fd(), POLLIN, TimePoint::max());
      signals.take(take, [](int) { ADD_FAILURE(); });
    }
  }));
}

TEST(Signals, TellOfChildrenThatAreStoppedAndGoOn) {
  EXPECT_TRUE(in_own_process([] {
    Signals signals;
    const int child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    int status = 0;
    const auto next_change = [&] {
      for (bool changed = false; !changed;) {
        await_events(signals.fd(), POLLIN, TimePoint::max());
        const auto take = [&](const Signals::Child& one) {
          EXPECT_EQ(one.pid, child);
          status = one.wait_status;
          changed = true;
        };
        signals.take(take, [](int) { ADD_FAILURE(); });
      }
    };
    ::kill(child, SIGSTOP);
    next_change();
    EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    ::kill(child, SIGCONT);
    next_change();
    EXPECT_TRUE(WIFCONTINUED(status));
    ::kill(child, SIGKILL);
    next_change();
    EXPECT_TRUE(WIFSIGNALED(status));
  }));
}

TEST(Signals, LeaveHangUpToWhomeverIgnoresIt) {
  EXPECT_TRUE(in_own_process([] {
    ::signal(SIGHUP, SIG_IGN);
    Signals signals;
    ::kill(::getpid(), SIGHUP);
    signals.take([](const Signals::Child&) {}, [](int) { ADD_FAILURE(); });
  }));
}

}  // namespace
}  // namespace hora::hrun
