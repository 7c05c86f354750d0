// SPDX-License-Identifier: Apache-2.0
// hrun with programs that know nothing of Hora.
#include "core/base/cores.h"
#include "runner/launch/binding.h"
#include "test/job/shell.h"
#include "test/support/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

namespace hora {
namespace {

std::filesystem::path scratch_folder(const std::string& name) {
  auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("hora-{}-{}", name, ::getpid());
  std::filesystem::create_directories(folder);
  return folder;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Hrun, TellsEveryRankWhoItIs) {
  const Outcome outcome = run_hrun(
      {"-np", "3", "sh", "-c", "echo $HORA_RANK of $HORA_SIZE, $HORA_LOCAL_RANK of $HORA_LOCAL_SIZE"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* line : {"[0] 0 of 3, 0 of 3\n", "[1] 1 of 3, 1 of 3\n", "[2] 2 of 3, 2 of 3\n"}) {
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
  }
}

TEST(Hrun, TellsEveryRankWhereTorchMeets) {
  const char* script = "echo ${HORA_COORDINATOR#*:} $MASTER_ADDR $MASTER_PORT";
  const Outcome outcome = run_hrun({"-np", "2", "--no-prefix", "sh", "-c", script});
  int own = 0;
  int port = 0;
  ASSERT_EQ(std::sscanf(outcome.output.c_str(), "%d 127.0.0.1 %d", &own, &port), 2) << outcome.output;
  EXPECT_NE(own, port);
  EXPECT_EQ(occurrences(outcome.output, "127.0.0.1 " + std::to_string(port) + "\n"), 2u);
  EXPECT_EQ(
      occurrences(run_hrun({"-np", "2", "-x", "MASTER_PORT=29511", "sh", "-c", script}).output, " 29511\n"),
      2u);
}

TEST(Hrun, MeasuresInsteadOfStartingAProgram) {
  const Outcome outcome = run_hrun({"--preflight", "-np", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output.find("hosts\n  localhost: "), 0U) << outcome.output;
  EXPECT_NE(outcome.output.find("    2 ranks share memory: an allreduce of 8 bytes takes "),
            std::string::npos)
      << outcome.output;
}

TEST(Hrun, MeasuresSharedMemoryOnItsOwnHostAlsoInAnAllocation) {
  ::setenv("SLURM_JOB_NODELIST", "node[1-2].invalid", 1);
  ::setenv("SLURM_TASKS_PER_NODE", "2(x2)", 1);
  const Outcome outcome = run_hrun({"--preflight", "-H", "localhost:2"});
  ::unsetenv("SLURM_JOB_NODELIST");
  ::unsetenv("SLURM_TASKS_PER_NODE");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("    2 ranks share memory: "), std::string::npos) << outcome.output;
}

TEST(Hrun, MeasuresEveryPairOfProbes) {
  const Outcome outcome = run_hrun({"-np", "3", "--no-prefix", HORA_HRUN, "--probe", "a:1,b:1,c:1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* pair : {"\n  b - a: ", "\n  c - a: ", "\n  c - b: "})
    EXPECT_EQ(occurrences(outcome.output, pair), 1u) << outcome.output;
  EXPECT_NE(outcome.output.find("\nevery host reaches every other\n"), std::string::npos) << outcome.output;
}

TEST(Hrun, GivesARankNoMoreDescriptorsThanItNames) {
  const char* script =
      "for fd in /proc/$$/fd/*; do fd=${fd##*/}; case \" 0 1 2 $HORA_SECRET_FD $HORA_NEWS_FD "
      "$HORA_QUESTION_FD $HORA_COORDINATOR_FD \" in *\" $fd \"*) ;; *) [ ! -e /proc/$$/fd/$fd ] || echo $fd "
      ";; esac; done";
  const Outcome outcome = run_hrun({"-np", "3", "--no-prefix", "sh", "-c", script});
  EXPECT_EQ(outcome.exit_code, 0);
  std::istringstream others(outcome.output);
  for (int fd = 0; others >> fd;) EXPECT_EQ(::fcntl(fd, F_GETFD), 0) << fd << " is not this test's";
}

TEST(Hrun, BindsEachRankToCoresOfItsOwn) {
  const auto cores = hrun::cores_here();
  if (cores.size() < 2 || core_quota() < 2) GTEST_SKIP() << "this machine lends us one core";
  const Outcome outcome = run_hrun({"-np", "2", "--bind-to", "core", "--report-bindings", "sh", "-c",
                                    "echo $(grep Cpus_allowed_list /proc/self/status) $OMP_NUM_THREADS"});
  const auto bindings = hrun::bind_ranks_here(hrun::BindTo::core, 2);
  for (const int rank : {0, 1}) {
    const auto& binding = bindings[static_cast<std::size_t>(rank)];
    const std::string where = describe(binding);
    EXPECT_NE(outcome.errors.find(fmt::format("hrun: rank {} is bound to {}\n", rank, where)),
              std::string::npos)
        << outcome.errors;
    const std::string cpus = where.substr(5, where.find(" (") - 5);
    EXPECT_NE(outcome.output.find(fmt::format("[{}] Cpus_allowed_list: {} {}\n", rank, cpus, binding.cores)),
              std::string::npos)
        << outcome.output;
  }
}

TEST(Hrun, SaysOnceThatNoRankIsBound) {
  const Outcome outcome = run_hrun({"-np", "200", "--bind-to", "core", "true"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(occurrences(outcome.errors, "so no rank is bound\n"), 1u) << outcome.errors;
}

TEST(Hrun, ReturnsTheCodeOfTheRankThatFailedFirstAndShowsItsLastLines) {
  const Outcome outcome =
      run_hrun({"-np", "4", "sh", "-c",
                "if [ $HORA_RANK = 2 ]; then echo because of this >&2; exit 7; fi; sleep 0.3; exit 3"});
  EXPECT_EQ(outcome.exit_code, 7);
  const auto at = outcome.errors.find("hrun: rank 2 (pid ");
  ASSERT_NE(at, std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("failed first: it exited with code 7", at), std::string::npos);
  EXPECT_NE(outcome.errors.find("  because of this\n", at), std::string::npos);
}

TEST(Hrun, ReturnsTheSignalOfARankThatWasKilled) {
  const Outcome outcome =
      run_hrun({"-np", "2", "--grace", "0.2", "sh", "-c", "[ $HORA_RANK = 1 ] && kill -9 $$; sleep 100"});
  EXPECT_EQ(outcome.exit_code, 137);
  EXPECT_NE(outcome.errors.find("rank 1 (pid"), std::string::npos);
  EXPECT_NE(outcome.errors.find("was killed by signal 9"), std::string::npos);
}

/// The processes of ranks that have this in their environment.
std::vector<int> ranks_with(const Launched& launched, const std::string& setting) {
  std::vector<int> found;
  for (const int pid : launched.processes()) {
    const auto environment = text_of_file(std::filesystem::path("/proc") / std::to_string(pid) / "environ");
    if (environment.find(setting) != std::string::npos) found.push_back(pid);
  }
  return found;
}

/// Waits until that rank runs its program.
int process_of(const Launched& launched, int rank) {
  for (;; std::this_thread::yield()) {
    const auto found = ranks_with(launched, std::string("HORA_RANK=") + std::to_string(rank) + '\0');
    if (!found.empty()) return found.front();
  }
}

void await_end_of_ranks(const Launched& launched) {
  while (!ranks_with(launched, "HORA_RANK=").empty()) std::this_thread::yield();
}

/// Kills it, and waits until it is dead; its parent may not know yet.
void kill_and_await(int pid, int signal) {
  ::kill(pid, signal);
  const auto stat = std::filesystem::path("/proc") / std::to_string(pid) / "stat";
  while (text_of_file(stat).find(") Z ") == std::string::npos) std::this_thread::yield();
}

TEST(Hrun, NamesTheFirstOfThoseThatEndedWhileItWasBusy) {
  for (const int first : {0, 1, 2}) {
    Launched launched({"-np", "3", "sleep", "1000"});
    const std::vector<int> ranks{process_of(launched, 0), process_of(launched, 1), process_of(launched, 2)};
    launched.stop();
    kill_and_await(ranks[first], SIGUSR1);
    for (const int other : {(first + 1) % 3, (first + 2) % 3}) kill_and_await(ranks[other], SIGUSR2);
    launched.signal(SIGCONT);
    const Outcome outcome = launched.wait();
    EXPECT_EQ(outcome.exit_code, 128 + SIGUSR1);
    EXPECT_NE(outcome.errors.find("rank " + std::to_string(first) + " (pid"), std::string::npos);
  }
}

TEST(Hrun, NamesTheRankThatFailedAndNotThoseThatItEnded) {
  const Outcome outcome = run_hrun({"-np", "4", "--grace", "0", "sh", "-c",
                                    "trap 'exit 9' TERM; [ $HORA_RANK = 2 ] && exit 7; sleep 1000 & wait"});
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_NE(outcome.errors.find("rank 2 (pid"), std::string::npos) << outcome.errors;
}

TEST(Hrun, NamesTheTimeOutAndTheSignalAndNotTheRanksThatEndedBecauseOfThem) {
  const char* script = "trap 'exit 9' TERM INT; echo up; sleep 1000 & wait";
  EXPECT_EQ(run_hrun({"-np", "2", "--timeout", "0.3", "sh", "-c", script}).exit_code, 124);
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched({"-np", "1", "sh", "-c", script});
    ASSERT_TRUE(launched.await_output("[0] up"));
    launched.signal(signal);
    const Outcome outcome = launched.wait();
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    EXPECT_EQ(outcome.errors, "");
  }
}

TEST(Hrun, KeepsTheTimeOutAlsoAfterARankFailed) {
  const Outcome outcome = run_hrun({"-np", "2", "--grace", "60", "--timeout", "0.5", "sh", "-c",
                                    "[ $HORA_RANK = 0 ] && exit 7; exec sleep 1000"});
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_LT(outcome.seconds, 30.0);
}

TEST(Hrun, EndsSurvivorsThatDoNotEndByThemselves) {
  Launched launched({"-np", "3", "--grace", "0.2", "sh", "-c",
                     "trap '' TERM; [ $HORA_RANK = 0 ] && exit 5; while :; do sleep 0.1; done"});
  EXPECT_EQ(launched.wait().exit_code, 5);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, EndsAStoppedRankForWhichNobodyWaitsAfterTheGrace) {
  Launched launched(
      {"-np", "3", "--grace", "0.5", "sh", "-c", "[ $HORA_RANK = 1 ] && kill -STOP $$; exit 0"});
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGSTOP);
  EXPECT_LT(outcome.seconds, 10.0);
  EXPECT_NE(outcome.errors.find("failed first: it was stopped by signal 19"), std::string::npos)
      << outcome.errors;
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, WaitsWithoutLimitForARankThatGoesOn) {
  const Outcome outcome =
      run_hrun({"-np", "2", "--grace", "1", "sh", "-c",
                "[ $HORA_RANK = 0 ] && exit 0; (sleep 0.3; kill -CONT $$) & kill -STOP $$; "
                "sleep 1.5; echo done"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "[1] done\n");
  EXPECT_NE(outcome.errors.find("goes on"), std::string::npos) << outcome.errors;
}

TEST(Hrun, PassesEveryLineOnWhole) {
  const Outcome outcome =
      run_hrun({"-np", "4", "sh", "-c",
                "i=0; while [ $i -lt 500 ]; do echo line $i of $HORA_RANK; i=$((i+1)); done; printf end"});
  EXPECT_EQ(occurrences(outcome.output, "\n"), 4u * 501u);
  for (int rank = 0; rank < 4; ++rank) {
    const auto prefix = "[" + std::to_string(rank) + "] ";
    EXPECT_EQ(occurrences(outcome.output, prefix + "line "), 500u);
    EXPECT_EQ(occurrences(outcome.output, prefix + "end\n"), 1u);
  }
}

TEST(Hrun, PassesOnALastLineWithoutEndAlsoWhereSomebodyHoldsThePipe) {
  for (const char* script : {"sleep 1000 & printf end", "setsid sleep 5 & printf end"}) {
    Launched launched({"-np", "2", "sh", "-c", script});
    const Outcome outcome = launched.wait();
    for (const int pid : launched.processes()) ::kill(pid, SIGKILL);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(occurrences(outcome.output, "[0] end\n"), 1u) << outcome.output;
    EXPECT_EQ(occurrences(outcome.output, "[1] end\n"), 1u) << outcome.output;
  }
}

TEST(Hrun, PassesOnEveryStateOfAProgressBar) {
  const Outcome outcome = run_hrun({"-np", "1", "sh", "-c", "printf '10%%\\r100%%\\r'; sleep 1000 & exit 0"});
  EXPECT_EQ(outcome.output, "[0] 10%\r[0] 100%\r\n");
}

TEST(Hrun, PassesBytesOnAsTheyAreWithoutPrefixes) {
  const auto folder = scratch_folder("bytes");
  std::mt19937 random(1);
  std::string bytes(300'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (const std::string& all : {std::string("a\rb\n"), std::string("no end"), bytes}) {
    std::ofstream(folder / "in", std::ios::binary) << all;
    const Outcome outcome = run_hrun({"-np", "1", "--no-prefix", "--output-filename", folder, "sh", "-c",
                                      "cat \"$1\"; cat \"$1\" >&2", "-", folder / "in"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_TRUE(outcome.output == all);
    EXPECT_TRUE(outcome.errors == all);
    EXPECT_TRUE(text_of_file(folder / "rank.0/stdout") == all);
    EXPECT_TRUE(text_of_file(folder / "rank.0/stderr") == all);
  }
  std::filesystem::remove_all(folder);
}

TEST(Hrun, PassesLinesOnBareAndKeepsErrorsApart) {
  const Outcome outcome = run_hrun({"-np", "2", "--no-prefix", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(outcome.output, "out\nout\n");
  EXPECT_EQ(outcome.errors, "err\nerr\n");
}

TEST(Hrun, NamesTheOthersThatEndedByThemselves) {
  const Outcome outcome = run_hrun({"-np", "2", "sh", "-c", "test $HORA_RANK = 0 || exit 3"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.errors.find("it exited with code 3\nhrun: rank 0 exited with code 0\n"),
            std::string::npos)
      << outcome.errors;
}

TEST(Hrun, WritesAFileForEachRankAndStream) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-output-" + std::to_string(::getpid()));
  run_hrun(
      {"-np", "2", "--output-filename", folder, "sh", "-c", "echo out $HORA_RANK; echo err $HORA_RANK >&2"});
  EXPECT_EQ(text_of_file(folder / "rank.0/stdout"), "out 0\n");
  EXPECT_EQ(text_of_file(folder / "rank.1/stderr"), "err 1\n");
  std::filesystem::remove_all(folder);
}

TEST(Hrun, WritesASummaryOfEveryRankOfAJobThatFails) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-summary-" + std::to_string(::getpid()));
  run_hrun({"-np", "3", "--grace", "0.2", "--output-filename", folder, "sh", "-c",
            "echo up; [ $HORA_RANK = 1 ] || exec sleep 1000; echo because of this >&2; kill -9 $$"});
  const auto summary = nlohmann::json::parse(text_of_file(folder / "summary.json"));
  EXPECT_EQ(summary["np"], 3);
  EXPECT_EQ(summary["exit_code"], 137);
  EXPECT_THAT(summary["first_cause"].get<std::string>(),
              testing::MatchesRegex("rank 1 .pid .* was killed by signal 9 .*"));
  const auto& first = summary["ranks"][1];
  EXPECT_EQ(first["signal"], 9);
  EXPECT_EQ(first["first_cause"], true);
  EXPECT_EQ(first["ended_by_hrun"], false);
  EXPECT_EQ(first["last_words"], "because of this");
  EXPECT_EQ(first["lines"]["stdout"], 1);
  EXPECT_EQ(first["lines"]["stderr"], 1);
  for (const int other : {0, 2}) {
    EXPECT_EQ(summary["ranks"][other]["ended_by_hrun"], true);
    EXPECT_EQ(summary["ranks"][other]["signal"], SIGTERM);
    EXPECT_GT(summary["ranks"][other]["pid"], 0);
    EXPECT_GE(summary["ranks"][other]["seconds"], 0.2);
  }
  std::filesystem::remove_all(folder);
}

TEST(Hrun, WritesASummaryOfAJobThatGoesWell) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("hora-well-" + std::to_string(::getpid()));
  EXPECT_EQ(run_hrun({"-np", "2", "--output-filename", folder, "true"}).exit_code, 0);
  const auto summary = nlohmann::json::parse(text_of_file(folder / "summary.json"));
  EXPECT_EQ(summary["exit_code"], 0);
  EXPECT_EQ(summary["first_cause"], nullptr);
  EXPECT_EQ(summary["ranks"][1]["exit_code"], 0);
  std::filesystem::remove_all(folder);
}

TEST(Hrun, ShowsTheLastTwentyLinesOfTheRankThatFailedFirstLast) {
  const Outcome outcome = run_hrun({"-np", "2", "sh", "-c",
                                    "[ $HORA_RANK = 0 ] && { sleep 0.3; echo consequence >&2; exit 4; };"
                                    "for i in $(seq 30); do echo line $i >&2; done; exit 3"});
  std::string last = "hrun: the last it wrote to stderr:\n";
  for (int i = 11; i <= 30; ++i) last += fmt::format("  line {}\n", i);
  EXPECT_THAT(outcome.errors, testing::EndsWith(last));
}

TEST(Hrun, EndsAllRanksOnCtrlC) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched({"-np", "3", "sh", "-c", "echo up; sleep 1000"});
    ASSERT_TRUE(launched.await_output("[2] up") && launched.await_output("[1] up") &&
                launched.await_output("[0] up"));
    launched.signal(signal);
    EXPECT_EQ(launched.wait().exit_code, 128 + signal);
    EXPECT_TRUE(launched.all_gone());
  }
}

/// Each signal that it gets is a line.
constexpr const char* kHearsSignals =
    "trap 'echo INT' INT; trap 'echo TERM' TERM; echo up; while :; do sleep 0.02; done";

TEST(Hrun, PassesACtrlCOnAndThenTakesOneStepAfterTheOther) {
  Launched launched({"-np", "2", "--grace", "0.3", "bash", "-c", kHearsSignals});
  ASSERT_TRUE(launched.await_output("[0] up") && launched.await_output("[1] up"));
  launched.signal(SIGINT);
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGINT);
  for (const char* rank : {"[0] ", "[1] "}) {
    const auto interrupted = outcome.output.find(rank + std::string("INT\n"));
    EXPECT_LT(interrupted, outcome.output.find(rank + std::string("TERM\n"))) << outcome.output;
    EXPECT_NE(interrupted, std::string::npos) << outcome.output;
  }
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, TakesTheNextStepAtOnceAtAFurtherCtrlC) {
  Launched launched({"-np", "1", "--grace", "1000", "bash", "-c", kHearsSignals});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGINT);
  ASSERT_TRUE(launched.await_output("[0] INT"));
  launched.signal(SIGINT);
  ASSERT_TRUE(launched.await_output("[0] TERM"));
  launched.signal(SIGINT);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGINT);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, TerminatesRanksAtOnceWhenItIsTerminated) {
  Launched launched({"-np", "1", "--grace", "0.3", "bash", "-c", kHearsSignals});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().output, "[0] up\n[0] TERM\n");
}

TEST(Hrun, PassesACtrlCOnAlsoWhereItWasStartedWithoutOne) {
  Launched launched(
      {"-np", "1", "--grace", "60", "bash", "-c", "trap 'exit 3' INT; echo up; while :; do sleep 0.02; done"},
      {SIGINT});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGINT);
  EXPECT_LT(launched.wait().seconds, 30.0);
}

TEST(Hrun, EndsAlsoWhileNobodyReadsItsOutput) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched({"-np", "2", "--grace", "0.2", "yes"});
    launched.await_full_output();
    launched.signal(signal);
    EXPECT_EQ(launched.wait_before_reading().exit_code, 128 + signal);
    EXPECT_TRUE(launched.all_gone());
  }
  Launched launched({"-np", "2", "--grace", "0.2", "--timeout", "0.5", "yes"});
  EXPECT_EQ(launched.wait_before_reading().exit_code, 124);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, EndsOnCtrlCAlsoWhenOnlyItsReaderIsMissing) {
  Launched launched({"-np", "1", "--grace", "60", "sh", "-c", "yes | head -c 80000"});
  launched.await_full_output();
  await_end_of_ranks(launched);
  launched.signal(SIGINT);
  EXPECT_EQ(launched.wait_before_reading().exit_code, 128 + SIGINT);
}

TEST(Hrun, LosesNothingToASlowReaderEvenWhenARankFails) {
  Launched launched(
      {"-np", "2", "--no-prefix", "sh", "-c", "yes | head -c 80000; [ $HORA_RANK = 0 ] && exit 7; exit 0"});
  launched.await_full_output();
  await_end_of_ranks(launched);
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(outcome.output.size(), 160000u);
}

TEST(Hrun, WaitsForAReaderAsLongAsThatGoesOnReading) {
  Launched launched({"-np", "1", "--grace", "1.5", "--no-prefix", "sh", "-c", "yes | head -c 600000"});
  std::size_t longest = 0;
  for (std::size_t read = 0; launched.await_more_output(read += 4096);) {
    if (read % (24 * 4096) == 0)
      std::this_thread::sleep_for(std::chrono::seconds(1));  // it is slow, and reads
    longest = read;
  }
  EXPECT_GT(longest, 500'000u);
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output.size(), 600'000u);
  EXPECT_GT(outcome.seconds, 3.0) << "longer than a reader that stands still is waited for";
}

TEST(Hrun, EndsThoughItsReaderStandsStillAndSaysWhatItHasLost) {
  struct Case {
    const char* end;
    int exit_code;
  };
  for (const Case& one : {Case{"exit 0", 1}, {"exit 7", 7}, {"kill -9 $$", 137}}) {
    const auto folder = scratch_folder("unread");
    Launched launched({"-np", "1", "--grace", "0.5", "--no-prefix", "--output-filename", folder, "sh", "-c",
                       std::string("yes | head -c 130000; echo because of this >&2; ") + one.end});
    EXPECT_TRUE(launched.await_errors(" bytes were left unwritten\n"));
    const Outcome outcome = launched.wait_before_reading();
    EXPECT_EQ(outcome.exit_code, one.exit_code);
    EXPECT_NE(outcome.errors.find(fmt::format("hrun: its output was not read to the end: {} bytes were left",
                                              130'000 - outcome.output.size())),
              std::string::npos)
        << outcome.errors;
    EXPECT_EQ(text_of_file(folder / "rank.0/stdout").size(), 130'000u);
    std::filesystem::remove_all(folder);
  }
}

TEST(Hrun, EndsThoughNobodyReadsWhatItSays) {
  for (const char* command : {"yes | head -c 60000 >&2; exit 7", "yes | head -c 60000; exit 7"}) {
    Launched launched({"-np", "2", "--grace", "0.2", "--no-prefix", "sh", "-c", command}, {}, {},
                      /*one_pipe=*/true);
    const Outcome outcome = launched.wait_before_reading();
    EXPECT_EQ(outcome.exit_code, 7);
    EXPECT_LT(outcome.seconds, 60.0);
  }
}

TEST(Hrun, ReportsAFailureAlsoWhileNobodyReadsStdout) {
  Launched launched({"-np", "1", "sh", "-c", "yes | head -c 80000; echo because of this >&2; exit 7"});
  EXPECT_TRUE(launched.await_errors("  because of this\n"));
  EXPECT_EQ(launched.wait().exit_code, 7);
}

TEST(Hrun, EndsThoughSomebodyWhoLeftGoesOnWriting) {
  Launched launched({"-np", "1", "sh", "-c", "setsid yes & sleep 0.1"});
  const Outcome outcome = launched.wait();
  for (const int pid : launched.processes()) ::kill(pid, SIGKILL);
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST(Hrun, LeavesRanksTheirGraceWhenItsReaderGoes) {
  const char* script =
      "trap 'for i in 1 2 3; do echo more; sleep 0.1; done; echo saved >&2; exit 0' TERM INT;"
      "echo up; while :; do echo more; sleep 0.05; done";
  for (const bool told : {false, true}) {
    Launched launched({"-np", "1", "sh", "-c", script});
    ASSERT_TRUE(launched.await_output("[0] up"));
    if (told) launched.signal(SIGINT);
    launched.stop_reading();
    const Outcome outcome = launched.wait();
    EXPECT_EQ(outcome.exit_code, 128 + (told ? SIGINT : SIGPIPE));
    EXPECT_NE(outcome.errors.find("[0] saved\n"), std::string::npos) << outcome.errors;
  }
}

TEST(Hrun, GivesGraceAlsoToWhatAWrapperStarted) {
  const char* script =
      "sh -c 'trap \"sleep 0.3; echo saved; exit 0\" TERM; echo up; while :; do sleep 0.05; done' & wait";
  Launched launched({"-np", "2", "--grace", "60", "sh", "-c", script});
  ASSERT_TRUE(launched.await_output("[0] up") && launched.await_output("[1] up"));
  launched.signal(SIGTERM);
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
  EXPECT_NE(outcome.output.find("[0] saved\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("[1] saved\n"), std::string::npos) << outcome.output;
  EXPECT_LT(outcome.seconds, 30.0) << "it waits no longer than they need";
}

TEST(Hrun, KillsWhatAWrapperStartedAfterTheGrace) {
  Launched launched({"-np", "2", "--grace", "0.3", "sh", "-c",
                     "sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.05; done' & wait"});
  ASSERT_TRUE(launched.await_output("[0] up") && launched.await_output("[1] up"));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGTERM);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, KilledItLeavesNoProcessNotEvenThoseThatRanksStarted) {
  Launched launched({"-np", "2", "sh", "-c", "sleep 1000 & echo up; wait"});
  ASSERT_TRUE(launched.await_output("[0] up") && launched.await_output("[1] up"));
  EXPECT_GE(launched.processes().size(), 4u);
  launched.signal(SIGKILL);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, EndsWhatRanksLeaveBehind) {
  Launched launched({"-np", "2", "sh", "-c", "sleep 1000 & exit 0"});
  EXPECT_EQ(launched.wait().exit_code, 0);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, EndsAJobThatTakesTooLong) {
  const Outcome outcome = run_hrun({"-np", "2", "--timeout", "0.3", "--grace", "0.2", "sleep", "1000"});
  EXPECT_EQ(outcome.exit_code, 124);
  EXPECT_NE(outcome.errors.find("did not end within 0.3 s"), std::string::npos) << outcome.errors;
}

TEST(Hrun, NoticesTheEndOfRanksWhereItsParentIgnoredThatOfChildren) {
  EXPECT_EQ(run_hrun({"-np", "2", "sh", "-c", "exit 3"}, {SIGCHLD}).exit_code, 3);
}

TEST(Hrun, RunsAlsoWhereStandardDescriptorsAreClosed) {
  for (const std::vector<int>& closed : {std::vector<int>{0}, {1}, {2}, {0, 1, 2}}) {
    Launched launched({"-np", "2", "sh", "-c", "echo out; echo err >&2; exit 3"}, {}, closed);
    EXPECT_EQ(launched.wait().exit_code, 3);
  }
}

TEST(Hrun, OutlivesTheTerminalUnderNohup) {
  Launched launched({"-np", "1", "sh", "-c", "kill -HUP $$; echo up; sleep 1000"}, {SIGHUP});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGHUP);
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGTERM);
}

TEST(Hrun, EndsAllRanksWhenTheTerminalGoes) {
  Launched launched({"-np", "1", "sh", "-c", "echo up; sleep 1000"});
  ASSERT_TRUE(launched.await_output("[0] up"));
  launched.signal(SIGHUP);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGHUP);
  EXPECT_TRUE(launched.all_gone());
}

TEST(Hrun, NeverShowsTheSecret) {
  // bash, as other shells redirect no descriptor above 9.
  Launched launched({"-np", "2", "--verbose", "bash", "-c",
                     "eval cat '<&'$HORA_SECRET_FD | od -An -tx1 | tr -d ' \\n'; echo; sleep 1000"});
  ASSERT_TRUE(launched.await_output("[0] ") && launched.await_output("[1] "));
  ASSERT_TRUE(launched.await_output("\n"));
  for (const int pid : launched.processes()) {
    const auto folder = std::filesystem::path("/proc") / std::to_string(pid);
    EXPECT_EQ(text_of_file(folder / "environ").find("HORA_SECRET="), std::string::npos);
    EXPECT_EQ(text_of_file(folder / "cmdline").find("secret "), std::string::npos);
  }
  launched.signal(SIGTERM);
  const Outcome outcome = launched.wait();
  const auto first = outcome.output.find("] ") + 2;
  const std::string secret = outcome.output.substr(first, 64);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos) << secret;
  EXPECT_EQ(occurrences(outcome.output, secret), 2u) << "both ranks have the same";
  EXPECT_EQ(outcome.errors.find(secret), std::string::npos);
}

TEST(Hrun, RefusesBeforeItStartsAnything) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-np", "0", "true"},
                                                {"-np", "2"},
                                                {"--bogus"},
                                                {"-np", "2", "no-such-program-anywhere"},
                                                {"-H", "localhost:0", "true"},
                                                {"--hostfile", "/tmp", "true"}}) {
    const Outcome outcome = run_hrun(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors.find("hrun: "), std::string::npos);
  }
}

}  // namespace
}  // namespace hora
