// SPDX-License-Identifier: Apache-2.0
// Scripts of sh that print hosts. Each test is a process of its own, as only one may wait for children.
#include "runner/elastic/discovery.h"

#include "runner/launch/signals.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>

namespace hora::hrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The results of the first runs of a script.
std::vector<DiscoveryRun> run(const std::string& script, std::size_t count = 1, int slots = 1) {
  Signals signals;
  Discovery discovery({script, slots}, Clock::now());
  std::vector<DiscoveryRun> runs;
  while (runs.size() < count) {
    std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
    discovery.watch(fds);
    ::poll(fds.data(), fds.size(), milliseconds_until(discovery.next()));
    signals.take([&](const Signals::Child& child) { discovery.child_changed(child.pid, child.wait_status); },
                 [](int) {});
    if (auto one = discovery.turn(Clock::now())) runs.push_back(std::move(*one));
  }
  return runs;
}

TEST(Discovery, TellsTheHostsThatTheScriptPrints) {
  EXPECT_TRUE(in_own_process([] {
    const auto runs = run("echo a:4; echo; echo '[::1]:2'; echo b; echo a:3", 1, 8);
    EXPECT_EQ(runs[0].trouble, "");
    EXPECT_THAT(runs[0].hosts, ElementsAre(HostSlots{"a", 3}, HostSlots{"::1", 2}, HostSlots{"b", 8}));
    EXPECT_THAT(run("true")[0].hosts, IsEmpty());
  }));
}

TEST(Discovery, RunsTheScriptAgainASecondAfterItHasEnded) {
  EXPECT_TRUE(in_own_process([] {
    const TimePoint begin = Clock::now();
    const auto runs = run("sleep 0.1; echo a", 2);
    EXPECT_GE(Clock::now() - begin, milliseconds(1200));
    EXPECT_EQ(runs[1].hosts, runs[0].hosts);
  }));
}

TEST(Discovery, DoesNotWaitForThoseWhomTheScriptLeavesBehind) {
  EXPECT_TRUE(in_own_process([] {
    const TimePoint begin = Clock::now();
    EXPECT_THAT(run("echo a; sleep 20 &")[0].hosts, ElementsAre(HostSlots{"a", 1}));
    EXPECT_LT(Clock::now() - begin, seconds(10));
  }));
}

TEST(Discovery, SaysWhatIsWrong) {
  EXPECT_TRUE(in_own_process([] {
    const std::string begin = "the host discovery script ";
    EXPECT_EQ(run("echo no cluster >&2; exit 3")[0].trouble,
              begin + "'echo no cluster >&2; exit 3' exited with code 3: no cluster");
    EXPECT_THAT(run("/no/such/script")[0].trouble, HasSubstr("exited with code 127: "));
    EXPECT_THAT(run("kill -9 $$")[0].trouble, HasSubstr("was killed by signal 9"));
    EXPECT_THAT(run("echo -rf:2")[0].trouble,
                HasSubstr("has printed no list of hosts: '-rf:2': '-rf' cannot be the name of a host"));
    EXPECT_THAT(run("echo a b c")[0].trouble, HasSubstr("expected 'host' or 'host:slots', found 'a b c'"));
    EXPECT_THAT(run("echo a:many")[0].trouble, HasSubstr("the number of slots must be from 1"));
    EXPECT_THAT(run("yes aaaaaaa")[0].trouble, HasSubstr("has printed more than 1048576 bytes"));
  }));
}

TEST(Discovery, WaitsAtTheStartUntilThereAreSlots) {
  EXPECT_TRUE(in_own_process([] {
    const std::string runs = fmt::format("{}/hora-runs-{}", testing::TempDir(), ::getpid());
    const std::string script =
        fmt::format("echo x >> {0}; if [ $(wc -l < {0}) -lt 2 ]; then echo a:1; else echo a:2; fi", runs);
    std::vector<std::string> said;
    const auto say = [&](const std::string& line) { said.push_back(line); };
    EXPECT_THAT(discover_hosts({script, 1}, 2, seconds(60), say), ElementsAre(HostSlots{"a", 2}));
    EXPECT_THAT(said, ElementsAre("1 slots on 1 hosts, and the job needs 2 to begin"));
    std::filesystem::remove(runs);
    try {
      static_cast<void>(discover_hosts({"exit 1", 1}, 1, seconds(60), say));
      ADD_FAILURE() << "the first run has failed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
    try {
      static_cast<void>(discover_hosts({"echo a", 1}, 2, milliseconds(100), say));
      ADD_FAILURE() << "there are too few";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("there are too few hosts after 0.1 s (--elastic-timeout): 1 slots"));
    }
  }));
}

}  // namespace
}  // namespace hora::hrun
