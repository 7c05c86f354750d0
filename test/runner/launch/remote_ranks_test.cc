// SPDX-License-Identifier: Apache-2.0
// With a real agent at the other end of a pipe; test/job has the rest.
#include "runner/launch/remote_ranks.h"

#include "runner/launch/agent_message.h"

#include "test/runner/drive.h"
#include "test/runner/own_process.h"

#include <hora/hora.h>
#include <hora/status.h>

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Kind = RankEvent::Kind;
using State = HostRanks::State;

RemoteHost remote(const std::vector<std::string>& command) {
  return {"b", command,
          [](const std::string& words, int code) { return words + " with " + std::to_string(code); }};
}

RemoteHost shell_road(const std::string& script) { return remote({"/bin/sh", "-c", script}); }

HostPlan shell(int ranks, const std::string& script) {
  HostPlan plan;
  plan.command = {"/bin/sh", "-c", script};
  plan.environment = {"PATH=/usr/bin:/bin", "COLOUR=red"};
  plan.directory = "/usr";
  plan.placements = place({{"here", ranks}}, ranks, false).front().placements;
  plan.alone = false;
  return plan;
}

std::unique_ptr<HostRanks> agent(const HostPlan& plan) {
  return make_remote_ranks(remote({HORA_HRUN, "--agent"}), plan, 30s, Clock::now());
}

TEST(RemoteRanks, RunToTheirEndAndTellEverything) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive(
        [&] { return agent(shell(2, "echo $COLOUR $HORA_RANK in $PWD; echo bad >&2; exit $HORA_RANK")); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    EXPECT_FALSE(ranks.ready().addresses.empty());
    ranks.start(rendezvous_at(ranks.ready(), "b"));
    EXPECT_EQ(drive.all_of(*ranks.output(1)), "red 1 in /usr\n");
    EXPECT_EQ(drive.all_of(*ranks.errors(0)), "bad\n");
    drive.until(State::over);
    ASSERT_EQ(drive.events.size(), 4u);
    EXPECT_GT(drive.events[0].pid, 0);
    for (const auto& event : {drive.events[2], drive.events[3]}) {
      EXPECT_EQ(event.kind, Kind::ended);
      EXPECT_EQ(event.ending.exit_code, event.index);
    }
  }));
}

TEST(RemoteRanks, OfAnElasticJobAreReplacedAndTheOutputOfTheFormerOneComesFirst) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(1, "yes $HORA_MEMBER_ID | head -n 150000; exit 3");
    plan.elastic = true;
    Drive drive([&] { return agent(plan); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    const auto first = ranks.output(0);
    std::string text;
    drive.until([&] {  // its end is heard once all that it writes fits into pipes
      std::array<char, 4096> buffer{};
      if (text.size() < 50'000) text.append(buffer.data(), first->read(buffer));
      return drive.events.size() == 2;
    });
    ranks.start_one(0, RankPlacement{}, 2);
    EXPECT_EQ(ranks.state(), State::running) << "also if the agent says that the former one is over";
    const auto second = ranks.output(0);
    text += drive.all_of(*first);
    EXPECT_EQ(text.size(), 300'000U);
    EXPECT_EQ(text.find('2'), std::string::npos);
    EXPECT_EQ(drive.all_of(*second).size(), 300'000U);
    drive.until(State::over);
    EXPECT_EQ(drive.events.back().kind, Kind::ended);
  }));
}

TEST(RemoteRanks, HearHowOthersEnded) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(1, "echo up; eval \"dd bs=1024 count=1 status=none <&$HORA_NEWS_FD\"");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return agent(plan); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    ranks.tell({5, false, "exited with code 3", "no more"});
    EXPECT_THAT(drive.all_of(*ranks.output(0)), AllOf(HasSubstr("exited with code 3"), HasSubstr("no more")));
    drive.until(State::over);
  }));
}

TEST(RemoteRanks, AreAskedAndAnswer) {
  EXPECT_TRUE(in_own_process([] {
    // A question that is sent back as it came reads as an answer without content.
    HostPlan plan =
        shell(2, "eval \"dd bs=1024 count=1 status=none <&$HORA_QUESTION_FD >&$HORA_QUESTION_FD\"");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return agent(plan); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.ask({6, QuestionKind::dump});  // there is nobody yet
    ranks.start({});
    ranks.ask({7, QuestionKind::dump});
    drive.until(State::over);
    std::vector<int> answered;
    for (const auto& event : drive.events) {
      if (event.kind != Kind::answered) continue;
      EXPECT_EQ(event.answer, (Reply{7, static_cast<ReplyKind>(QuestionKind::dump)}));
      answered.push_back(event.index);
    }
    EXPECT_THAT(answered, testing::UnorderedElementsAre(0, 1));
  }));
}

TEST(RemoteRanks, OfAnElasticJobTellAndAreToldAndKilled) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(2,
                          "printf '\\0\\5' >&$HORA_MEMBER_FD; dd bs=1024 count=1 status=none "
                          "<&$HORA_MEMBER_FD | od -An -tu1; sleep 1000");
    plan.command.front() = "/bin/bash";
    plan.elastic = true;
    Drive drive([&] { return agent(plan); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    const auto told = [&] {
      return std::count_if(drive.events.begin(), drive.events.end(),
                           [](const RankEvent& event) { return event.kind == Kind::told; });
    };
    drive.until([&] { return told() == 2; });
    EXPECT_EQ(drive.events.back().message.port, 5);
    for (const int index : {1, 0}) {
      ranks.send(index, {.kind = elastic::LeaderMessage::Kind::go, .generation = 7});
      std::array<char, 64> buffer{};
      std::size_t count = 0;
      drive.until([&] { return (count = ranks.output(index)->read(buffer)) > 0; });
      EXPECT_EQ(std::string(buffer.data(), count), "   2   7\n");
      ranks.kill_one(index);
      drive.until(
          [&] { return drive.events.back().kind == Kind::ended && drive.events.back().index == index; });
      EXPECT_EQ(drive.events.back().ending.signal, SIGKILL);
    }
    drive.until(State::over);
  }));
}

TEST(RemoteRanks, TellWhatARankWroteBeforeItsEnd) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] { return agent(shell(1, "echo because of this >&2; kill -9 $$")); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    drive.until([&] { return !drive.events.empty() && drive.events.back().kind == Kind::ended; });
    EXPECT_EQ(drive.events.back().ending.signal, SIGKILL);
    std::array<char, 64> buffer{};
    EXPECT_EQ(ranks.errors(0)->read(buffer), 16U);
    drive.until(State::over);
  }));
}

TEST(RemoteRanks, AreGoneWhenTheyHaveBeenPartedFrom) {
  EXPECT_TRUE(in_own_process([] {
    const auto mark =
        std::filesystem::temp_directory_path() / ("agent_has_ended_" + std::to_string(::getpid()));
    {
      Drive drive([&] {
        return make_remote_ranks(shell_road(HORA_HRUN " --agent; : > " + mark.string()), shell(1, "true"),
                                 30s, Clock::now());
      });
      drive.until(State::ready);
      drive.ranks().start({});
      drive.until(State::over);
      EXPECT_FALSE(std::filesystem::exists(mark)) << "an agent stays for as long as it is wanted";
      drive.ranks().part();
    }
    EXPECT_TRUE(std::filesystem::remove(mark));
  }));
}

TEST(RemoteRanks, SkipWhatALoginShellPrints) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([] {
      return make_remote_ranks(shell_road("printf 'Welcome\\nto b'; exec " HORA_HRUN " --agent"),
                               shell(1, "true"), 30s, Clock::now());
    });
    drive.until(State::ready);
  }));
}

TEST(RemoteRanks, ReadMoreThanAWindowAndHoldUpNobodyWhenTheyDoNot) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(2, "cat; echo done >&2");
    plan.input = InputKind::piped;
    plan.reader = 0;
    Drive drive([&] { return agent(plan); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    drive.until([&] { return drive.events.size() >= 2; });  // rank 1 may have ended in the same turn
    const std::string all(2'000'000, 'x');
    std::string_view rest = all;
    const auto feed = [&] {
      const auto piece = rest.substr(0, ranks.room());
      if (!piece.empty()) ranks.feed(piece);
      rest.remove_prefix(piece.size());
    };
    feed();
    EXPECT_EQ(rest.size(), all.size() - kWindow);
    EXPECT_EQ(drive.all_of(*ranks.errors(1)), "done\n") << "though nobody reads rank 0's output";
    std::size_t read = 0;
    drive.until([&] {
      feed();
      std::array<char, 4096> buffer{};
      read += ranks.output(0)->read(buffer);
      return read == all.size();
    });
    ranks.feed("");
    EXPECT_EQ(drive.all_of(*ranks.output(0)), "");
    drive.until(State::over);
  }));
}

TEST(RemoteRanks, EndWhenTheyAreToldTo) {
  struct Case {
    void (HostRanks::*tell)();
    int exit_code;
  };
  for (const Case& one :
       {Case{&HostRanks::interrupt, 4}, {&HostRanks::terminate, 3}, {&HostRanks::kill, 137}}) {
    EXPECT_TRUE(in_own_process([&] {
      Drive drive([&] {
        return agent(
            shell(1, "trap 'exit 3' TERM; trap 'exit 4' INT; echo up; while :; do sleep 0.02; done"));
      });
      HostRanks& ranks = drive.ranks();
      drive.until(State::ready);
      ranks.start({});
      std::array<char, 16> buffer{};
      drive.until([&] { return ranks.output(0)->read(buffer) > 0; });
      (ranks.*one.tell)();
      drive.until(State::over);
      EXPECT_EQ(drive.events.back().ending.exit_code, one.exit_code);
    }));
  }
}

/// The error of a plan or a remote that is no good.
std::string trouble(const std::function<std::unique_ptr<HostRanks>()>& make) {
  Drive drive(make);
  drive.until(State::failed);
  return drive.ranks().trouble();
}

TEST(RemoteRanks, SayWhyTheyCannotBeReached) {
  EXPECT_TRUE(in_own_process([] {
    EXPECT_EQ(trouble([] {
                return make_remote_ranks(shell_road("echo not; echo today >&2; exit 7"), shell(1, ""), 30s,
                                         Clock::now());
              }),
              "today with 7");
    EXPECT_EQ(trouble([] {
                return make_remote_ranks(shell_road("echo wait >&2; exec sleep 1000"), shell(1, ""), 200ms,
                                         Clock::now());
              }),
              "no answer within 0.2 s (--start-timeout): wait");
    EXPECT_THAT(trouble([] {
                  return make_remote_ranks(shell_road("echo hora-agent 0.0.7 /old/hrun; exec sleep 1000"),
                                           shell(1, ""), 30s, Clock::now());
                }),
                StartsWith("its hrun (/old/hrun) is of version 0.0.7, and this one of "));
    EXPECT_THAT(trouble([] {
                  return make_remote_ranks(shell_road(std::string("echo hora-agent ") + version() +
                                                      "; echo garbage; exec sleep 1000"),
                                           shell(1, ""), 30s, Clock::now());
                }),
                StartsWith("it speaks another language: "));
  }));
}

TEST(RemoteRanks, SayWhyTheyCannotStart) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(1, "");
    plan.directory = "/no/such/directory";
    EXPECT_EQ(trouble([&] { return agent(plan); }),
              "the working directory /no/such/directory cannot be entered: No such file or directory");
    plan = shell(1, "");
    plan.command = {"/no/such/program"};
    EXPECT_EQ(trouble([&] { return agent(plan); }), "cannot start '/no/such/program': there is no such file");
    plan = shell(1, "");
    plan.horovod_folder = "/no/such/folder";
    EXPECT_THAT(trouble([&] { return agent(plan); }), HasSubstr("there is no folder /no/such/folder"));
    plan = shell(1, "");
    plan.network = "nothing0";
    EXPECT_THAT(trouble([&] { return agent(plan); }), HasSubstr("nothing0"));
  }));
}

TEST(RemoteRanks, AreLostWhenTheConnectionEnds) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] {
      return make_remote_ranks(shell_road(HORA_HRUN " --agent; echo torn >&2; exit 9"),
                               shell(2, "kill -9 $PPID; exec sleep 1000"), 30s, Clock::now());
    });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    drive.until(State::over);
    EXPECT_EQ(drive.events.back().kind, Kind::host_lost);
    EXPECT_THAT(drive.events.back().ending.how,
                AllOf(StartsWith("the connection to its agent ended (code 9): "), HasSubstr("torn")));
    EXPECT_EQ(drive.events.back().ending.exit_code, 255);
    EXPECT_TRUE(ranks.output(0)->ended());
  }));
}

TEST(RemoteRanks, AreNotLostBecauseOfWhatWasSaidAtLogin) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] {
      return make_remote_ranks(shell_road("echo authorized users only >&2; " HORA_HRUN " --agent; exit 9"),
                               shell(1, "kill -9 $PPID; exec sleep 1000"), 30s, Clock::now());
    });
    drive.until(State::ready);
    drive.ranks().start({});
    drive.until(State::over);
    EXPECT_THAT(
        drive.events.back().ending.how,
        AllOf(StartsWith("the connection to its agent ended (code 9)"), Not(HasSubstr("authorized"))));
  }));
}

TEST(RemoteRanks, AreLostWhenTheirAgentIsToldToEnd) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] { return agent(shell(1, "kill -TERM $PPID; exec sleep 1000")); });
    drive.until(State::ready);
    drive.ranks().start({});
    drive.until(State::over);
    EXPECT_EQ(drive.events.back().kind, Kind::host_lost);
    EXPECT_EQ(drive.events.back().ending.how, "the agent of this host was told to end (Terminated)");
    EXPECT_EQ(drive.events.back().ending.exit_code, 255);
  }));
}

int parent_of(int process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word == "PPid:") status >> process;
  }
  return process;
}

TEST(RemoteRanks, AreLostWhenNothingIsHeardOfThem) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] { return agent(shell(1, "exec sleep 1000")); });
    HostRanks& ranks = drive.ranks();
    drive.until(State::ready);
    ranks.start({});
    drive.until([&] { return !drive.events.empty(); });
    const int its_agent = parent_of(drive.events.front().pid);
    ::kill(its_agent, SIGSTOP);
    std::vector<RankEvent> events;
    for (TimePoint now = Clock::now(); events.empty(); now += 1s) events = ranks.turn(now);
    EXPECT_EQ(events.front().kind, Kind::host_lost);
    EXPECT_EQ(events.front().ending.how, "no word from it for 4 s");
    EXPECT_EQ(ranks.state(), State::over);
    ::kill(its_agent, SIGCONT);
  }));
}

}  // namespace
}  // namespace hora::hrun
