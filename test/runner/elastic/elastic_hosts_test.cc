// SPDX-License-Identifier: Apache-2.0
// The hosts of a job whose ranks are state machines: nothing is started. test/hosts and test/python have
// jobs.
#include "runner/elastic/elastic_hosts.h"

#include "runner/launch/job_hosts.h"
#include "runner/launch/job_ranks.h"
#include "runner/launch/signals.h"

#include "test/runner/own_process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hora::hrun {
namespace {

using elastic::MemberMessage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A job that has begun with two ranks on host a.
class JobOfTwo {
 public:
  explicit JobOfTwo(const std::vector<HostSlots>& hosts, const std::string& script = "")
      : options_(options_of(hosts, script)) {
    job_hosts_.add(hosts.front().host, std::nullopt, 2);  // that of the ranks
    hosts_.emplace(options_, job_hosts_, ranks_);
    GenerationPolicy policy;
    policy.members.min_members = 1;
    policy.members.first_members = 2;
    policy.members.max_members = 8;
    generations_.emplace(options_.shares, hosts_->capacities(), policy,
                         GenerationFacts{[](int) { return std::string(); },
                                         [](int, int) { return std::string(); }, [] { return Secret{}; }},
                         Clock::now());
    for (const int rank : {0, 1})
      take(generations_->hear(rank, {.kind = MemberMessage::Kind::join}, Clock::now()));
    hosts_->begin(*generations_, Clock::now());
  }

  std::string obey(const JobCommand& command) {
    const auto obeyed = hosts_->obey(command, Clock::now());
    take(obeyed.orders);
    return obeyed.text;
  }
  std::string drain(const std::string& host) { return obey({JobCommand::Kind::drain, 0, host}); }
  void tick() { take(generations_->tick(Clock::now())); }
  /// Waits until there are so many lines.
  void until_lines(std::size_t count) {
    while (lines.size() < count) {
      std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
      hosts_->watch(fds);
      ::poll(fds.data(), fds.size(), milliseconds_until(hosts_->next()));
      signals_.take([&](const Signals::Child& child) { hosts_->child_changed(child.pid, child.wait_status); },
                    [](int) {});
      take(hosts_->turn(Clock::now()));
    }
  }
  [[nodiscard]] std::vector<std::string> names() const { return ranks_.summary().hosts; }

  std::vector<std::string> lines;
  std::vector<int> started_on;  // hosts, by number

 private:
  static Options options_of(const std::vector<HostSlots>& hosts, const std::string& script) {
    Options options;
    options.ranks = 2;
    options.hosts = hosts;
    options.shares = place({{hosts.front().host, 2}}, 2, false);
    options.way_to = [](const std::string& host) { return RemoteHost{host, {"false"}, {}}; };
    for (const auto& host : hosts) options.remote_hosts.push_back(options.way_to(host.host));
    if (!script.empty()) options.discovery = DiscoveryPlan{script, 1};
    return options;
  }
  void take(const GenerationOrders& orders) {
    lines.insert(lines.end(), orders.lines.begin(), orders.lines.end());
    for (const auto& start : orders.starts) started_on.push_back(start.placement.host);
    for (const int rank : orders.kills)
      take(generations_->ended(rank, {137, "was killed", 9}, false, Clock::now(), Clock::now()));
  }

  Options options_;
  Signals signals_;
  JobHosts job_hosts_;
  JobRanks ranks_{options_};
  std::optional<ElasticHosts> hosts_;
  std::optional<Generations> generations_;
};

TEST(ElasticHosts, HaveSlotsAlsoWhereThereAreNoRanks) {
  EXPECT_TRUE(in_own_process([] {
    JobOfTwo job({{"a", 2}, {"b", 3}});
    EXPECT_THAT(job.names(), ElementsAre("a", "b"));
    job.tick();
    EXPECT_THAT(job.started_on, ElementsAre(1, 1, 1));
  }));
}

TEST(ElasticHosts, AreDrainedIfTheJobGoesOnElsewhere) {
  EXPECT_TRUE(in_own_process([] {
    JobOfTwo job({{"a", 2}, {"b", 3}});
    for (const auto& [host, why] :
         {std::pair("c", "the job has no host c; it has a, b"),
          std::pair("a", "without host a no rank would be left that has the state of the training")}) {
      try {
        job.drain(host);
        ADD_FAILURE() << host;
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), why);
      }
    }
    EXPECT_EQ(job.drain("b"), "the ranks of host b leave before the next step");
    EXPECT_EQ(job.obey({JobCommand::Kind::resize, 5, ""}),
              "the job has 2 ranks, and is to have 5; its hosts have 2 slots now");
    EXPECT_THAT(job.lines, ElementsAre("host b is drained: its ranks leave"));
    job.tick();
    EXPECT_THAT(job.started_on, IsEmpty());
  }));
}

TEST(ElasticHosts, ComeAndGoAsTheScriptSays) {
  EXPECT_TRUE(in_own_process([] {
    const std::string file = fmt::format("{}/hora-hosts-{}", testing::TempDir(), ::getpid());
    const auto list = [&](const std::string& text) {
      std::ofstream(file + ".new") << text;
      std::filesystem::rename(file + ".new", file);
    };
    list("a:2\n");
    JobOfTwo job({{"a", 2}}, "cat " + file);
    list("a:2\nb.invalid:1\nc.invalid\n");
    job.until_lines(2);
    EXPECT_THAT(job.lines, ElementsAre("host b.invalid has 1 slot", "host c.invalid has 1 slot"));
    EXPECT_THAT(job.started_on, ElementsAre(1, 2));
    EXPECT_THAT(job.names(), ElementsAre("a", "b.invalid", "c.invalid"));
    list("a:2\nc.invalid:3\nb.invalid:-1\n");
    job.until_lines(3);
    EXPECT_THAT(job.lines[2], HasSubstr("has printed no list of hosts: 'b.invalid:-1'"));
    EXPECT_THAT(job.lines[2], HasSubstr("; the hosts stay as they were"));
    list("a:2\nc.invalid:3\n");
    job.until_lines(5);
    EXPECT_EQ(job.lines[3], "host b.invalid is not listed any more: its ranks leave");
    EXPECT_EQ(job.lines[4], "host c.invalid has 3 slots");
    EXPECT_THAT(job.started_on, ElementsAre(1, 2, 2, 2));
    list("a:2\nb.invalid\nc.invalid:3\n");
    job.until_lines(6);
    EXPECT_THAT(job.started_on, ElementsAre(1, 2, 2, 2, 1));
    std::filesystem::remove(file);
  }));
}

}  // namespace
}  // namespace hora::hrun
