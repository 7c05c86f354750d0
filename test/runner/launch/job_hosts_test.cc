// SPDX-License-Identifier: Apache-2.0
// Hosts of a job: this machine, and others by way of real agents. test/job has whole jobs.
#include "runner/launch/job_hosts.h"

#include "runner/launch/signals.h"
#include "runner/streams/standard_input.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>

namespace hora::hrun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Ranks that run a script of sh: two on this machine, two more on host b, to which `way` leads.
Options job_on_two_hosts(const std::string& script, const std::string& way = HORA_HRUN " --agent") {
  Options options;
  options.ranks = 4;
  options.shares = place({{"localhost", 2}, {"b", 2}}, 4, false);
  options.remote_hosts = {{"b", {"/bin/sh", "-c", way}, [](const std::string& words, int) { return words; }}};
  options.command = {"/bin/sh", "-c", script};
  return options;
}

/// All hosts of a job, in a process that may take signals.
class DrivenHosts {
 public:
  explicit DrivenHosts(const Options& options) : input_(std::nullopt) {
    hosts.prepare(plan_of(options), options, input_);
  }
  void until(const std::function<bool()>& done) {
    while (!done()) turn();
  }
  /// Starts the ranks of the job, which has one more host without ranks.
  void start_with(const RemoteHost& other) {
    hosts.add(other.host, other, 2);
    until([&] { return hosts.all_ready(); });
    hosts.start();
  }
  JobHosts hosts;
  std::vector<RankEvent> ends;
  std::vector<std::string> losses;

 private:
  void turn() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    hosts.watch(fds);
    ::poll(fds.data(), fds.size(), milliseconds_until(hosts.next()));
    const TimePoint now = Clock::now();
    signals_.take(
        [&](const Signals::Child& child) { hosts.child_changed(child.pid, child.wait_status, now); },
        [](int) {});
    for (int host = 0; host < hosts.size(); ++host) {
      for (const auto& event : hosts.turn(host, now)) {
        if (event.kind == RankEvent::Kind::ended) ends.push_back(event);
        if (event.kind == RankEvent::Kind::host_lost) losses.push_back(event.ending.how);
      }
    }
  }

  Signals signals_;
  StandardInput input_;
};

TEST(JobHosts, StartTheirSharesOfTheRanksAndHearThemEnd) {
  EXPECT_TRUE(in_own_process([] {
    const Options options = job_on_two_hosts("exit $HORA_RANK");
    DrivenHosts driven(options);
    JobHosts& hosts = driven.hosts;
    EXPECT_FALSE(hosts.anybody_left());
    driven.until([&] { return hosts.all_ready(); });
    ASSERT_EQ(hosts.size(), 2);
    EXPECT_EQ(hosts.at(1).name, "b");
    EXPECT_THAT(hosts.at(1).numbers, testing::ElementsAre(2, 3));
    hosts.start();
    EXPECT_TRUE(hosts.anybody_left());
    driven.until([&] { return !hosts.anybody_left(); });
    std::vector<int> codes;
    for (const auto& end : driven.ends) codes.push_back(end.ending.exit_code);
    EXPECT_THAT(codes, testing::UnorderedElementsAre(0, 1, 2, 3));
  }));
}

TEST(JobHosts, SendTheSameSignalToAllRanks) {
  const std::vector<std::pair<EndSignal, int>> codes{{EndSignal::interrupt, 128 + SIGINT},
                                                     {EndSignal::terminate, 128 + SIGTERM},
                                                     {EndSignal::kill, 128 + SIGKILL}};
  for (const auto& [signal, code] : codes) {
    EXPECT_TRUE(in_own_process([sent = signal, expected = code] {
      const Options options = job_on_two_hosts("exec sleep 1000");
      DrivenHosts driven(options);
      JobHosts& hosts = driven.hosts;
      driven.until([&] { return hosts.all_ready(); });
      hosts.start();
      hosts.send(EndSignal::none);
      hosts.send(sent);
      driven.until([&] { return !hosts.anybody_left(); });
      ASSERT_EQ(driven.ends.size(), 4u);
      for (const auto& end : driven.ends) EXPECT_EQ(end.ending.exit_code, expected);
    }));
  }
}

TEST(JobHosts, NameAllThatCannotBeReachedAndStartNone) {
  EXPECT_TRUE(in_own_process([] {
    const Options options = job_on_two_hosts("true", "echo no way in >&2; exit 1");
    DrivenHosts driven(options);
    try {
      driven.until([&] { return driven.hosts.all_ready(); });
      ADD_FAILURE() << "a host cannot be reached";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot start ranks on 1 of 2 hosts"),
                                      HasSubstr("b: no way in"), Not(HasSubstr("localhost"))));
    }
    EXPECT_FALSE(driven.hosts.anybody_left());
  }));
}

GenerationOrders::Start start_of(int rank, int local_rank, int host) {
  return {{.rank = rank, .size = 8, .local_rank = local_rank, .local_size = 4, .host = host}, 10};
}

/// An elastic job, in which hosts may get their first rank while it runs.
Options elastic_job(const std::string& script, const std::string& way = HORA_HRUN " --agent") {
  Options options = job_on_two_hosts(script, way);
  options.shares = place({{"localhost", 1}}, 1, false);
  options.hosts = {{"localhost", 2}, {"b", 2}};
  options.elastic.emplace();
  return options;
}

TEST(JobHosts, ConnectAHostWhenItGetsItsFirstRank) {
  EXPECT_TRUE(in_own_process([] {
    const Options options = elastic_job("case $HORA_RANK in 4|5) exit $HORA_RANK;; esac; exec sleep 1000");
    DrivenHosts driven(options);
    JobHosts& hosts = driven.hosts;
    driven.start_with(*options.remote_host("b"));
    GenerationOrders orders;
    orders.starts = {start_of(4, 1, 0), start_of(5, 1, 1), start_of(6, 0, 1), start_of(7, 2, 1)};
    hosts.carry_out(orders);
    GenerationOrders kill;
    kill.kills = {7};
    hosts.carry_out(kill);
    driven.until([&] { return driven.ends.size() == 3; });
    std::vector<int> codes;
    for (const auto& end : driven.ends) codes.push_back(end.ending.exit_code);
    EXPECT_THAT(codes, testing::UnorderedElementsAre(4, 5, 137)) << "one is killed that waited for its host";
    EXPECT_THAT(hosts.at(0).numbers, testing::ElementsAre(0, 4));
    EXPECT_THAT(hosts.at(1).numbers, testing::ElementsAre(5, 6, 7));
    EXPECT_TRUE(hosts.anybody_left());
    hosts.send(EndSignal::kill);
    driven.until([&] { return !hosts.anybody_left(); });
  }));
}

TEST(JobHosts, TellThatAHostIsLostThatCannotBeConnectedAndTryItAgain) {
  EXPECT_TRUE(in_own_process([] {
    const Options options = elastic_job("exec sleep 1000", "echo no way in >&2; exit 1");
    DrivenHosts driven(options);
    JobHosts& hosts = driven.hosts;
    driven.start_with(*options.remote_host("b"));
    for (const std::size_t losses : {1, 2}) {
      GenerationOrders orders;
      orders.starts = {start_of(1, 0, 1)};
      hosts.carry_out(orders);
      driven.until([&] { return driven.losses.size() == losses; });
      EXPECT_EQ(driven.losses.back(), "no way in");
    }
    hosts.send(EndSignal::kill);
    driven.until([&] { return !hosts.anybody_left(); });
  }));
}

TEST(JobHosts, ConnectALostHostOnlyOnceItsLossWasHeard) {
  EXPECT_TRUE(in_own_process([] {
    const Options options = elastic_job("exec sleep 1000", "echo no way in >&2; exit 1");
    DrivenHosts driven(options);
    JobHosts& hosts = driven.hosts;
    driven.start_with(*options.remote_host("b"));
    GenerationOrders orders;
    orders.starts = {start_of(1, 0, 1)};
    hosts.carry_out(orders);
    driven.until([&] { return driven.losses.size() == 1; });
    hosts.carry_out(orders);  // of an end in the same turn: its caller has not heard of the loss yet
    EXPECT_FALSE(hosts.at(1).connecting);
    hosts.forget_waiting(1);
    EXPECT_FALSE(hosts.at(1).is_to_be_connected());
    hosts.send(EndSignal::kill);
    driven.until([&] { return !hosts.anybody_left(); });
    EXPECT_EQ(driven.losses.size(), 1U);
  }));
}

TEST(JobHosts, HaveAPlanWithASecretOfItsOwn) {
  const Options options = job_on_two_hosts("true");
  EXPECT_NE(plan_of(options).secret, plan_of(options).secret);
  EXPECT_FALSE(plan_of(options).alone);
  Options elastic = elastic_job("true");
  EXPECT_FALSE(plan_of(elastic).alone) << "others may come";
  elastic.hosts.pop_back();
  EXPECT_TRUE(plan_of(elastic).alone);
}

}  // namespace
}  // namespace hora::hrun
