// SPDX-License-Identifier: Apache-2.0
// hrun with hosts that are this machine under other names: a program named ssh, in PATH, leads back here.
#include "runner/launch/agent_message.h"
#include "runner/launch/plan.h"
#include "test/job/shell.h"
#include "test/support/files.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("hora-ssh-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "ssh") << "#!/bin/sh\n"
                                      "echo \"$@\" >> "
                                   << (folder_ / "calls").string()
                                   << "\n"
                                      "while [ \"$1\" != -- ]; do shift; done\n"
                                      "[ \"$2\" = closed.invalid ] && { echo 'no way in' >&2; exit 255; }\n"
                                      "shift 2\n"
                                      "exec /bin/sh -c \"$*\"\n";
    ::chmod((folder_ / "ssh").c_str(), 0700);
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  std::string path_ = std::getenv("PATH");
  std::filesystem::path folder_;
};

constexpr const char* kTwo = "one.invalid:2,two.invalid:1";

TEST_F(Hosts, GetTheirRanksAndEveryRankKnowsItsPlace) {
  const Outcome outcome = run_hrun({"-H", "localhost:1,one.invalid:2", "sh", "-c",
                                    "echo $HORA_RANK $HORA_SIZE $HORA_LOCAL_RANK/$HORA_LOCAL_SIZE "
                                    "$HORA_CROSS_RANK/$HORA_CROSS_SIZE $GROUP_RANK"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_THAT(sorted_lines(outcome.output),
              ElementsAre("[0] 0 3 0/1 0/2 0", "[1] 1 3 0/2 1/2 1", "[2] 2 3 1/2 0/1 1"));
}

TEST_F(Hosts, TellAllRanksTheSamePlacesOfRankZero) {
  const Outcome outcome =
      run_hrun({"-H", kTwo, "--no-prefix", "sh", "-c", "echo $HORA_COORDINATOR $MASTER_ADDR $MASTER_PORT"});
  const auto lines = sorted_lines(outcome.output);
  ASSERT_EQ(lines.size(), 3u) << outcome.errors;
  EXPECT_EQ(lines[0], lines[2]);
  EXPECT_THAT(lines[0], HasSubstr(",one.invalid:"));
}

TEST_F(Hosts, AreToldNothingOnACommandLine) {
  run_hrun({"-H", kTwo, "-x", "A=hidden", "sh", "-c", "echo words"});
  const std::string calls = text_of_file(folder_ / "calls");
  EXPECT_THAT(calls, HasSubstr("-- one.invalid exec /bin/sh -c"));
  EXPECT_THAT(calls, Not(HasSubstr("hidden")));
  EXPECT_THAT(calls, Not(HasSubstr("words")));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 2) << "one for each host";
}

TEST_F(Hosts, GiveTheInputToRankZeroAndTakeItsOutputWhole) {
  const auto script = fmt::format(
      "seq 1 100000 | {} -H {} --no-prefix sh -c '[ $RANK = 0 ] && cat; true' | cksum", HORA_HRUN, kTwo);
  const auto expected = "seq 1 100000 | cksum";
  const auto said = [&](const std::string& command) {
    const auto file = folder_ / "said";
    EXPECT_EQ(std::system((command + " > " + file.string()).c_str()), 0);
    return text_of_file(file);
  };
  EXPECT_EQ(said(script), said(expected));
}

TEST_F(Hosts, NameTheRankThatFailedFirstAndItsHost) {
  const Outcome outcome =
      run_hrun({"-H", kTwo, "--grace", "0.2", "sh", "-c",
                "[ $RANK = 2 ] && { echo because of this >&2; exit 7; }; exec sleep 1000"});
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_THAT(outcome.errors, HasSubstr("on two.invalid) failed first: it exited with code 7\n"));
  EXPECT_THAT(outcome.errors, HasSubstr("  because of this\n"));
}

TEST_F(Hosts, ThatAreLostEndTheJob) {
  Launched launched(
      {"-H", kTwo, "--grace", "0.2", "sh", "-c", "[ $RANK = 2 ] && kill -9 $PPID; sleep 1000 & wait"});
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 255);
  EXPECT_THAT(outcome.errors, HasSubstr("hrun: host two.invalid is lost, and with it rank 2: "));
  EXPECT_TRUE(launched.all_gone());
}

TEST_F(Hosts, ThatCannotBeReachedAreAllNamedAndNothingStarts) {
  const Outcome outcome =
      run_hrun({"-H", "localhost,closed.invalid,one.invalid", "-np", "3", "sh", "-c", "echo up"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.errors,
            "hrun: cannot start ranks on 1 of 3 hosts, and has started none:\n  closed.invalid: no way in\n");
}

TEST_F(Hosts, EndWhenHrunIsToldTo) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched({"-H", kTwo, "sh", "-c", "echo up; sleep 1000"});
    ASSERT_TRUE(launched.await_output("[2] up") && launched.await_output("[1] up") &&
                launched.await_output("[0] up"));
    launched.signal(signal);
    EXPECT_EQ(launched.wait().exit_code, 128 + signal);
    EXPECT_TRUE(launched.all_gone());
  }
}

TEST_F(Hosts, EndWhenHrunIsKilled) {
  Launched launched({"-H", kTwo, "sh", "-c", "sleep 1000 & echo up; wait"});
  ASSERT_TRUE(launched.await_output("[2] up") && launched.await_output("[1] up") &&
              launched.await_output("[0] up"));
  launched.signal(SIGKILL);
  EXPECT_TRUE(launched.all_gone());
}

std::string spoken(hrun::Word word, std::span<const std::byte> body = {}) {
  return std::string(hrun::text_of(encode(word, body)));
}

TEST_F(Hosts, ThatAreLostAfterTheirRanksEndedHoldUpNobodyAndChangeNoVerdict) {
  // In the place of an agent of one rank: it says that the rank is over, and nothing of the rank's stdout.
  std::ofstream(folder_ / "ready") << hrun::kGreeting << " " << version() << " /bin/hrun\n"
                                   << spoken(hrun::Word::ready, encode(hrun::Ready{}));
  std::ofstream(folder_ / "over") << spoken(hrun::Word::started, encode(hrun::Started{0, 1}))
                                  << spoken(hrun::Word::ended,
                                            encode(hrun::Ended{0, 0, "exited with code 0", 0}))
                                  << spoken(hrun::Word::over, hrun::encode_number(1))
                                  << spoken(hrun::Word::output, encode(hrun::OutputPiece{1, ""}));
  const auto step = [&](const char* name) { return (folder_ / name).string(); };
  const auto await = [&](const char* name) {
    return fmt::format("while [ ! -e {} ]; do sleep 0.02; done\n", step(name));
  };
  std::ofstream(folder_ / "ssh") << "#!/bin/sh\ncat " << step("ready") << "\n"
                                 << await("failed") << "cat " << step("over") << "\n"
                                 << await("reported");
  Launched launched(
      {"-H", "localhost:1,two.invalid:1", "sh", "-c", fmt::format(": > {}; exit 7", step("failed"))});
  EXPECT_TRUE(launched.await_errors("failed first: it exited with code 7\n"));
  std::ofstream(step("reported")).flush();
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_THAT(outcome.errors, HasSubstr("hrun: host two.invalid is lost, and with it rank 1: "));
}

TEST_F(Hosts, EndWhenTheirTimeIsOver) {
  const Outcome outcome = run_hrun({"-H", kTwo, "--timeout", "0.5", "--grace", "0.2", "sleep", "1000"});
  EXPECT_EQ(outcome.exit_code, 124);
}

TEST_F(Hosts, ReportAFailureAlsoWhileNobodyReadsStdout) {
  Launched launched({"-H", kTwo, "--grace", "0.2", "sh", "-c",
                     "[ $RANK = 0 ] && exec yes; sleep 0.3; echo because of this >&2; exit 7"});
  EXPECT_TRUE(launched.await_errors("  because of this\n"));
  EXPECT_EQ(launched.wait().exit_code, 7);
}

TEST_F(Hosts, AreNotStoppedByCtrlZ) {
  Launched launched({"-H", kTwo, "sh", "-c", "echo up; sleep 1000"});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGTSTP);
  EXPECT_TRUE(launched.await_errors("hrun: not stopped"));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGTERM);
}

}  // namespace
}  // namespace hora
