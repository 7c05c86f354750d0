// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/local_ranks.h"

#include "runner/launch/agent_message.h"

#include "test/runner/drive.h"
#include "test/runner/own_process.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <span>

namespace hora::hrun {
namespace {

using testing::HasSubstr;
using Kind = RankEvent::Kind;

HostPlan shell(int ranks, const std::string& script) {
  HostPlan plan;
  plan.command = {"/bin/sh", "-c", script};
  plan.environment = {"PATH=/usr/bin:/bin", "COLOUR=red"};
  plan.placements = place({{"here", ranks}}, ranks, false).front().placements;
  return plan;
}

TEST(LocalRanks, RunToTheirEndAndTellEverything) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive(
        [&] { return make_local_ranks(shell(2, "echo $COLOUR $HORA_RANK; echo bad >&2; exit $HORA_RANK")); });
    HostRanks& ranks = drive.ranks();
    ASSERT_EQ(ranks.state(), HostRanks::State::ready);
    EXPECT_EQ(ranks.ready().addresses, std::vector<std::string>{"127.0.0.1"});
    ranks.start(rendezvous_at(ranks.ready(), ""));
    drive.until(HostRanks::State::over);
    EXPECT_EQ(drive.all_of(*ranks.output(1)), "red 1\n");
    EXPECT_EQ(drive.all_of(*ranks.errors(0)), "bad\n");
    ASSERT_EQ(drive.events.size(), 4u);
    EXPECT_GT(drive.events[0].pid, 0);
    for (const auto& event : {drive.events[2], drive.events[3]}) {
      EXPECT_EQ(event.kind, Kind::ended);
      EXPECT_EQ(event.ending.exit_code, event.index);
    }
  }));
}

TEST(LocalRanks, EndWhenTheyAreToldTo) {
  for (const bool interrupt : {false, true}) {
    EXPECT_TRUE(in_own_process([&] {
      Drive drive([&] {
        return make_local_ranks(
            shell(2, "trap 'exit 3' TERM; trap 'exit 4' INT; echo up; while :; do sleep 0.02; done"));
      });
      HostRanks& ranks = drive.ranks();
      ranks.start({});
      for (int i = 0; i < 2; ++i) {
        std::array<char, 16> buffer{};
        drive.until([&] { return ranks.output(i)->read(buffer) > 0; });
      }
      if (interrupt) {
        ranks.interrupt();
      } else {
        ranks.terminate();
      }
      drive.until(HostRanks::State::over);
      EXPECT_EQ(drive.events.back().ending.exit_code, interrupt ? 4 : 3);
    }));
  }
}

TEST(LocalRanks, AreKilledWithTheirGroups) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([&] { return make_local_ranks(shell(1, "trap '' TERM; echo up; sleep 1000 & wait; wait")); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    std::array<char, 16> buffer{};
    drive.until([&] { return ranks.output(0)->read(buffer) > 0; });
    ranks.terminate();
    ranks.kill();
    drive.until(HostRanks::State::over);
    EXPECT_EQ(drive.events.back().ending.exit_code, 137);
  }));
}

TEST(LocalRanks, ThatAreStoppedAndGoOnAreTold) {
  EXPECT_TRUE(in_own_process([] {
    // It reads before it leaves: of one that goes on and is gone at once, the system tells the end alone.
    HostPlan plan = shell(1, "kill -STOP $$; read line; exit 4");
    plan.input = InputKind::piped;
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    drive.until([&] { return drive.events.size() == 2; });
    EXPECT_EQ(drive.events.back().kind, Kind::stopped);
    EXPECT_EQ(drive.events.back().ending.signal, SIGSTOP);
    EXPECT_EQ(ranks.state(), HostRanks::State::running);
    ::kill(drive.events.front().pid, SIGCONT);
    drive.until([&] { return drive.events.size() == 3; });
    EXPECT_EQ(drive.events.back().kind, Kind::resumed);
    ranks.feed("go\n");
    drive.until(HostRanks::State::over);
    ASSERT_EQ(drive.events.size(), 4u);
    EXPECT_EQ(drive.events.back().ending.exit_code, 4);
  }));
}

TEST(LocalRanks, ReadWhatIsForThem) {
  struct Case {
    int reader;
    std::vector<std::string> read;
  };
  for (const auto& [reader, read] :
       {Case{0, {"words", ""}}, Case{1, {"", "words"}}, Case{kEveryRank, {"words", "words"}}}) {
    EXPECT_TRUE(in_own_process([&, reader = reader, read = read] {
      HostPlan plan = shell(2, "cat");
      plan.input = InputKind::piped;
      plan.reader = reader;
      Drive drive([&] { return make_local_ranks(plan); });
      HostRanks& ranks = drive.ranks();
      EXPECT_EQ(ranks.room(), 0u) << "nobody is there yet";
      ranks.start({});
      ranks.feed("words");
      ranks.feed("");
      drive.until(HostRanks::State::over);
      EXPECT_EQ(drive.all_of(*ranks.output(0)), read[0]);
      EXPECT_EQ(drive.all_of(*ranks.output(1)), read[1]);
      EXPECT_EQ(ranks.room(), 0u) << "nobody reads any more";
    }));
  }
}

TEST(LocalRanks, TakeAsMuchAsTheSlowestReads) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(2, "test $HORA_RANK = 0 && exec cat >/dev/null; kill -STOP $$; cat >/dev/null");
    plan.input = InputKind::piped;
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    drive.until([&] { return drive.events.size() == 3 && drive.events.back().kind == Kind::stopped; });
    const std::string piece(4096, 'x');
    std::size_t given = 0;
    drive.until([&] {
      const std::size_t room = ranks.room();
      if (room > 0) ranks.feed(std::string_view(piece).substr(0, room));
      given += std::min(room, piece.size());
      return room == 0;
    });
    EXPECT_GE(given, kWindow) << "and a pipe";
    ::kill(drive.events[1].pid, SIGCONT);
    drive.until([&] { return ranks.room() == kWindow; });
    ranks.feed("");
    drive.until(HostRanks::State::over);
  }));
}

TEST(LocalRanks, HaveATerminalOfTheirOwn) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(2,
                          "stty size; read line < /dev/tty; echo got $line; test \"$(cut -d' ' -f6 "
                          "/proc/$$/stat)\" = $$ && echo leader; read line || echo end");
    plan.input = InputKind::terminal;
    plan.reader = 1;
    plan.window = {30, 100};
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    std::string text;
    drive.until([&] {
      std::array<char, 64> buffer{};
      text.append(buffer.data(), ranks.output(1)->read(buffer));
      return text == "30 100\n";
    });
    ranks.feed("words\r");
    ranks.feed("\x04");
    drive.until(HostRanks::State::over);
    EXPECT_EQ(drive.all_of(*ranks.output(1)), "words\ngot words\nleader\nend\n");
  }));
}

TEST(LocalRanks, HearHowOthersEnded) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(2, "eval \"dd bs=1024 count=1 status=none <&$HORA_NEWS_FD\"");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    const RankEnd end{5, true, "was killed by signal 9 (Killed)", "no more"};
    for (int more = 0; more < 10'000; ++more) ranks.tell(end);  // nobody need read it
    for (int i = 0; i < 2; ++i) {
      const std::string heard = drive.all_of(*ranks.output(i));
      EXPECT_EQ(decode_rank_end(std::as_bytes(std::span(heard))), end);
    }
    drive.until(HostRanks::State::over);
  }));
}

TEST(LocalRanks, AreAskedAndAnswer) {
  EXPECT_TRUE(in_own_process([] {
    // A question that is sent back as it came reads as an answer without content.
    HostPlan plan =
        shell(2, "eval \"dd bs=1024 count=1 status=none <&$HORA_QUESTION_FD >&$HORA_QUESTION_FD\"");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.ask({6, QuestionKind::dump});  // there is nobody yet
    ranks.start({});
    ranks.ask({7, QuestionKind::dump});
    drive.until(HostRanks::State::over);
    std::vector<int> answered;
    for (const auto& event : drive.events) {
      if (event.kind != Kind::answered) continue;
      EXPECT_EQ(event.answer, (Reply{7, static_cast<ReplyKind>(QuestionKind::dump)}));
      answered.push_back(event.index);
    }
    EXPECT_THAT(answered, testing::UnorderedElementsAre(0, 1));
    ranks.ask({8, QuestionKind::dump});  // there is nobody any more
  }));
}

TEST(LocalRanks, AnswerAlsoIfTheyEndWithAQuestionUnread) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(1, "printf '\\7\\0' >&$HORA_QUESTION_FD");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return make_local_ranks(plan); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    ranks.ask({7, QuestionKind::dump});
    drive.events = ranks.turn({});
    const int pid = drive.events.front().pid;
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
    drive.until(HostRanks::State::over);
    ASSERT_EQ(drive.events.size(), 3u);
    EXPECT_EQ(drive.events[1].kind, Kind::answered);
    EXPECT_EQ(drive.events[2].kind, Kind::ended);
  }));
}

TEST(LocalRanks, AreHeardNoMoreOnceTheyAnswerWhatNobodyAsked) {
  EXPECT_TRUE(in_own_process([] {
    HostPlan plan = shell(
        1,
        "for i in {1..1000}; do printf '\\7\\0' >&$HORA_QUESTION_FD || break; done 2>/dev/null; echo done");
    plan.command.front() = "/bin/bash";
    Drive drive([&] { return make_local_ranks(plan); });
    drive.ranks().start({});
    EXPECT_EQ(drive.all_of(*drive.ranks().output(0)), "done\n");
    drive.until(HostRanks::State::over);
    EXPECT_LT(drive.events.size(), 100u);
  }));
}

/// Ranks of an elastic job, whose script is one of bash.
HostPlan elastic_shell(int ranks, const std::string& script) {
  HostPlan plan = shell(ranks, script);
  plan.command.front() = "/bin/bash";
  plan.elastic = true;
  return plan;
}

TEST(LocalRanks, OfAnElasticJobTellAndAreTold) {
  EXPECT_TRUE(in_own_process([] {
    // A message join with port 5; then the bytes of the message that comes.
    Drive drive([] {
      return make_local_ranks(elastic_shell(
          2,
          "test -z \"$HORA_NEWS_FD\" || exit 9; printf '\\0\\5' >&$HORA_MEMBER_FD; "
          "dd bs=1024 count=1 status=none <&$HORA_MEMBER_FD | od -An -tu1; echo $HORA_MEMBER_ID"));
    });
    HostRanks& ranks = drive.ranks();
    EXPECT_FALSE(ranks.ready().addresses.empty());
    ranks.start({});
    for (const int index : {0, 1}) {
      ranks.send(index, {.kind = elastic::LeaderMessage::Kind::go,
                         .generation = static_cast<std::uint64_t>(7 + index)});
    }
    EXPECT_EQ(drive.all_of(*ranks.output(0)), "   2   7\n1\n");
    EXPECT_EQ(drive.all_of(*ranks.output(1)), "   2   8\n2\n");
    drive.until(HostRanks::State::over);
    std::vector<int> told;
    for (const auto& event : drive.events) {
      if (event.kind != Kind::told) continue;
      EXPECT_EQ(event.message,
                (elastic::MemberMessage{.kind = elastic::MemberMessage::Kind::join, .port = 5}));
      told.push_back(event.index);
    }
    EXPECT_THAT(told, testing::UnorderedElementsAre(0, 1));
  }));
}

TEST(LocalRanks, OfAnElasticJobAreReplacedWhileOthersRun) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([] {
      return make_local_ranks(elastic_shell(
          2,
          "echo $HORA_MEMBER_ID in $HORA_RANK; test $HORA_MEMBER_ID = 2 || exit 3; read -u $HORA_MEMBER_FD"));
    });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    const auto former = ranks.output(0);
    const auto ends = [&] {
      return std::count_if(drive.events.begin(), drive.events.end(),
                           [](const RankEvent& event) { return event.kind == Kind::ended; });
    };
    drive.until([&] { return ends() == 1; });
    for (const elastic::MemberId member : {3, 4}) {
      ranks.start_one(0, RankPlacement{}, member);
      EXPECT_EQ(drive.all_of(*ranks.output(0)), std::to_string(member) + " in 0\n");
      drive.until([&] { return ends() == static_cast<int>(member) - 1; });  // only then is it replaced
    }
    EXPECT_EQ(drive.all_of(*former), "1 in 0\n") << "that is read late";
    EXPECT_EQ(ranks.state(), HostRanks::State::running);
    ranks.kill();
    drive.until(HostRanks::State::over);
    std::vector<Kind> of_first;
    for (const auto& event : drive.events) {
      if (event.index == 0) of_first.push_back(event.kind);
    }
    EXPECT_THAT(of_first, testing::ElementsAre(Kind::started, Kind::ended, Kind::started, Kind::ended,
                                               Kind::started, Kind::ended));
  }));
}

TEST(LocalRanks, TellThatOneCannotBeReplaced) {
  EXPECT_TRUE(in_own_process([] {
    const std::string folder = testing::TempDir() + std::to_string(::getpid());
    std::filesystem::create_directory(folder);
    std::filesystem::copy_file("/bin/sh", folder + "/sh");
    HostPlan plan = elastic_shell(1, "exit 3");
    plan.command.front() = folder + "/sh";
    Drive drive([&] { return make_local_ranks(plan); });
    drive.ranks().start({});
    drive.until(HostRanks::State::over);
    std::filesystem::remove_all(folder);
    drive.ranks().start_one(0, RankPlacement{}, 2);
    drive.until([&] { return drive.events.size() == 3; });
    EXPECT_EQ(drive.events.back().kind, Kind::ended);
    EXPECT_EQ(drive.events.back().ending.exit_code, kNotStarted);
    EXPECT_THAT(drive.events.back().ending.how, HasSubstr("was not started: "));
  }));
}

TEST(LocalRanks, TellAllMessagesBeforeTheirEnd) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([] {
      return make_local_ranks(
          elastic_shell(1, "printf '\\1' >&$HORA_MEMBER_FD; printf '\\6' >&$HORA_MEMBER_FD"));
    });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    ranks.send(0, {.kind = elastic::LeaderMessage::Kind::go, .generation = 1});  // it is not read
    drive.events = ranks.turn({});
    const int pid = drive.events.front().pid;
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
    drive.until(HostRanks::State::over);
    ASSERT_EQ(drive.events.size(), 4u);
    EXPECT_EQ(drive.events[1].message.kind, elastic::MemberMessage::Kind::beat);
    EXPECT_EQ(drive.events[2].message.kind, elastic::MemberMessage::Kind::finish);
    EXPECT_EQ(drive.events[3].kind, Kind::ended);
  }));
}

TEST(LocalRanks, AreKilledIfTheyTellNonsenseOrReadNothing) {
  for (const auto& [script, why] :
       {std::pair("printf '\\377' >&$HORA_MEMBER_FD; sleep 1000", "it has sent bytes that are no message"),
        std::pair("sleep 1000", "it reads no messages of hrun")}) {
    EXPECT_TRUE(in_own_process([&, script = script, why = why] {
      Drive drive([&] { return make_local_ranks(elastic_shell(1, script)); });
      HostRanks& ranks = drive.ranks();
      ranks.start({});
      if (std::string(script) == "sleep 1000") {
        for (int i = 0; i < 10'000; ++i) ranks.send(0, {.kind = elastic::LeaderMessage::Kind::go});
      }
      drive.until(HostRanks::State::over);
      EXPECT_EQ(drive.events.back().ending.signal, SIGKILL);
      EXPECT_EQ(drive.events.back().ending.how, std::string("was ended by hrun: ") + why);
    }));
  }
}

TEST(LocalRanks, AreKilledOneByOneWithTheirGroups) {
  EXPECT_TRUE(in_own_process([] {
    Drive drive([] { return make_local_ranks(shell(2, "trap '' TERM; sleep 1000 & wait; wait")); });
    HostRanks& ranks = drive.ranks();
    ranks.start({});
    for (const int index : {1, 0}) {
      const std::size_t before = drive.events.size();
      ranks.kill_one(index);
      drive.until([&] { return drive.events.size() > before && drive.events.back().kind == Kind::ended; });
      EXPECT_EQ(drive.events.back().index, index);
      EXPECT_EQ(drive.events.back().ending.signal, SIGKILL);
      EXPECT_TRUE(drive.all_of(*ranks.output(index)).empty()) << "nobody of its group is left";
      EXPECT_EQ(ranks.state(), index == 1 ? HostRanks::State::running : HostRanks::State::over);
    }
    ranks.kill_one(0);  // it has ended
  }));
}

TEST(LocalRanks, SayWhyTheyCannotStart) {
  HostPlan plan = shell(1, "");
  plan.command = {"/etc/hostname"};
  const auto ranks = make_local_ranks(plan);
  EXPECT_THROW(ranks->start({}), Error);
}

TEST(LocalRanks, OfTheFirstHostOfSeveralTellItsAddresses) {
  HostPlan plan = shell(1, "");
  plan.alone = false;
  const auto ranks = make_local_ranks(plan);
  EXPECT_FALSE(ranks->ready().addresses.empty());
  EXPECT_GT(ranks->ready().port, 0);
  EXPECT_GT(ranks->ready().master_port, 0);
  plan.network = "no-such-interface";
  EXPECT_THROW(make_local_ranks(plan), Error);
}

}  // namespace
}  // namespace hora::hrun
