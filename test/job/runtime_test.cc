// SPDX-License-Identifier: Apache-2.0
// Real ranks under hrun: jobs that go well, and ranks that die at any time.
#include "test/job/shell.h"
#include "test/support/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace hora {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::size_t visible_in_dev_shm() {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    count += entry.path().filename().string().find("hora") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Job, ReducesOverEveryPlane) {
  for (const char* setting : {"HORA_CPU_OPERATIONS=shm", "HORA_CPU_OPERATIONS=tcp", "HORA_PEER_MEMORY=0",
                              "HORA_PEER_MEMORY=1", "HORA_STREAMING_STORES=1", "HORA_LEVELS=2"}) {
    for (const int ranks : {1, 2, 4}) {
      const Outcome outcome = run_hrun(worker(ranks, {"reduce"}, {"-x", setting}));
      EXPECT_EQ(outcome.exit_code, 0) << setting << outcome.output << outcome.errors;
      EXPECT_EQ(outcome.output, "[0] done\n");
    }
  }
}

TEST(Job, TriesHowMuchShouldTravelTogetherAndSaysWhatItHasFound) {
  const auto log = std::filesystem::path(testing::TempDir()) / fmt::format("trials-{}.csv", ::getpid());
  for (const char* plane : {"HORA_CPU_OPERATIONS=shm", "HORA_CPU_OPERATIONS=tcp"}) {
    const Outcome outcome = run_hrun(worker(2, {"reduce", "120"},
                                            {"--autotune", "--autotune-log-file", log.string(),
                                             "--autotune-steps-per-sample", "1", "-x", plane}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "[0] done\n");
    EXPECT_THAT(outcome.errors,
                HasSubstr("autotune has ended: steps are as fast as they get with HORA_FUSION_THRESHOLD="));
    std::ifstream file(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 16u);
    EXPECT_THAT(lines.back(), StartsWith("chosen,"));
  }
  std::filesystem::remove(log);
}

TEST(Job, EndsOnAllRanksWhereTheTrialsCannotBeLogged) {
  const Outcome outcome =
      run_hrun(worker(2, {"reduce"}, {"--autotune", "--autotune-log-file", "/nowhere/trials.csv"}));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.output + outcome.errors,
      HasSubstr("HORA_AUTOTUNE_LOG=/nowhere/trials.csv: cannot write there: No such file or directory"));
}

TEST(Job, ADeathAtAnyTimeIsNamedByAllOthersWithinASecond) {
  for (const char* plane : {"HORA_CPU_OPERATIONS=auto", "HORA_CPU_OPERATIONS=tcp"}) {
    for (int victim = 0; victim < 3; ++victim) {
      for (const int after : {0, 30, 170}) {
        Launched launched(worker(3, {"die", std::to_string(victim), std::to_string(after)}, {"-x", plane}));
        const Outcome outcome = launched.wait();
        EXPECT_EQ(outcome.exit_code, 137) << outcome.output << outcome.errors;
        EXPECT_LT(outcome.seconds, 5.0 + after / 1000.0);
        const std::regex heard("rank " + std::to_string(victim) +
                               " \\(pid [0-9]+ on .*\\) is gone: .* after ([0-9.]+)");
        int survivors = 0;
        for (std::sregex_iterator at(outcome.output.begin(), outcome.output.end(), heard), end; at != end;
             ++at) {
          EXPECT_LT(std::stod((*at)[1]), 1.0);
          ++survivors;
        }
        EXPECT_EQ(survivors, 2) << plane << " victim " << victim << " after " << after << "\n"
                                << outcome.output << outcome.errors;
        EXPECT_TRUE(launched.all_gone());
        EXPECT_EQ(visible_in_dev_shm(), 0u);
      }
    }
  }
}

TEST(Job, AStoppedRankIsNamedWithinItsHeartbeatAndASecondAndEndsWithTheOthers) {
  for (const char* plane : {"HORA_CPU_OPERATIONS=auto", "HORA_CPU_OPERATIONS=tcp"}) {
    for (const int victim : {0, 2}) {
      Launched launched(
          worker(3, {"stop", std::to_string(victim), "30"}, {"-x", plane, "-x", "HORA_HEARTBEAT_TIMEOUT=2"}));
      const Outcome outcome = launched.wait();
      EXPECT_EQ(outcome.exit_code, 128 + SIGSTOP) << outcome.output << outcome.errors;
      EXPECT_LT(outcome.seconds, 5.0) << "no grace helps it";
      const std::regex blamed("rank " + std::to_string(victim) +
                              " \\(pid [0-9]+\\) failed first: it was stopped by signal 19");
      EXPECT_TRUE(std::regex_search(outcome.errors, blamed)) << outcome.errors;
      const std::regex heard("rank " + std::to_string(victim) +
                             " \\(pid [0-9]+ on .*\\) is gone: no sign of life for 2 s.* after ([0-9.]+)");
      int survivors = 0;
      for (std::sregex_iterator at(outcome.output.begin(), outcome.output.end(), heard), end; at != end;
           ++at) {
        EXPECT_LT(std::stod((*at)[1]), 3.0);
        ++survivors;
      }
      EXPECT_EQ(survivors, 2) << plane << " victim " << victim << "\n" << outcome.output << outcome.errors;
      EXPECT_TRUE(launched.all_gone());
    }
  }
}

TEST(Job, AnErrorThatNobodyCatchesIsToldOnceForAllRanksWithItsRemedy) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-fewer-" + std::to_string(::getpid()));
  const Outcome outcome = run_hrun(worker(4, {"fewer", "1"}, {"--output-filename", folder}));
  EXPECT_EQ(outcome.exit_code, 128 + SIGABRT) << outcome.output << outcome.errors;
  const std::string& errors = outcome.errors;
  EXPECT_LE(std::count(errors.begin(), errors.end(), '\n'), 15) << errors;
  EXPECT_EQ(errors.find("terminate called"), errors.rfind("terminate called")) << errors;
  EXPECT_THAT(errors, HasSubstr("hrun: hora::Error: 't1': rank 1 has left the job without submitting it\n"
                                "  Did you mean hvd.join()? Rank 1 called it less often than others"));
  EXPECT_THAT(errors, HasSubstr("hrun: this ended ranks 0, 2-3\nhrun: rank 1 exited with code 0\n"));
  for (const char* rank : {"rank.0", "rank.2", "rank.3"}) {
    // A rank that asks for 't1' only when rank 0 has ended hears of it from there.
    EXPECT_THAT(text_of_file(folder / rank / "stderr"),
                AllOf(HasSubstr("terminate called after throwing an instance of 'hora::Error'\n  what():  "),
                      HasSubstr("'t1': rank 1 has left the job")));
  }
  std::filesystem::remove_all(folder);
}

TEST(Job, RanksWriteToEachOtherOnEveryPlane) {
  for (const char* setting : {"HORA_CPU_OPERATIONS=auto", "HORA_CPU_OPERATIONS=tcp"}) {
    for (const int ranks : {1, 2, 4}) {
      const Outcome outcome = run_hrun(worker(ranks, {"write"}, {"-x", setting}));
      EXPECT_EQ(outcome.exit_code, 0) << setting << outcome.output << outcome.errors;
      EXPECT_EQ(outcome.output, "[0] done\n");
    }
  }
}

TEST(Job, EncryptsElementsOverSocketsIfItIsToldTo) {
  const std::vector<std::string> settings{"-x", "HORA_CPU_OPERATIONS=tcp", "-x", "HORA_ENCRYPTION=all"};
  for (const char* what : {"reduce", "write"}) {
    const Outcome outcome = run_hrun(worker(3, {what}, settings));
    EXPECT_EQ(outcome.exit_code, 0) << what << outcome.output << outcome.errors;
    EXPECT_EQ(outcome.output, "[0] done\n");
  }
  const Outcome over_mpi =
      run_hrun(worker(2, {"reduce"}, {"-x", "HORA_CPU_OPERATIONS=mpi", "-x", "HORA_ENCRYPTION=all"}));
  EXPECT_NE(over_mpi.exit_code, 0);
  EXPECT_NE(over_mpi.output.find("HORA_ENCRYPTION=all, but MPI moves tensors as it likes"), std::string::npos)
      << over_mpi.output << over_mpi.errors;
}

TEST(Job, ADeathEndsMessagesThatAreUnderWayAndIsNamed) {
  for (const char* plane : {"HORA_CPU_OPERATIONS=auto", "HORA_CPU_OPERATIONS=tcp"}) {
    for (const int victim : {0, 2}) {
      const Outcome outcome = run_hrun(worker(3, {"orphan", std::to_string(victim)}, {"-x", plane}));
      EXPECT_EQ(outcome.exit_code, 137) << outcome.output << outcome.errors;
      const std::regex heard("a message (from|to) rank " + std::to_string(victim) + " with tag 0: rank " +
                             std::to_string(victim) + " \\(pid [0-9]+ on .*\\) is gone: .* after ([0-9.]+)");
      int ended = 0;
      for (std::sregex_iterator at(outcome.output.begin(), outcome.output.end(), heard), end; at != end;
           ++at) {
        EXPECT_LT(std::stod((*at)[2]), 1.0);
        ++ended;
      }
      EXPECT_EQ(ended, 4) << plane << " victim " << victim << "\n" << outcome.output << outcome.errors;
    }
  }
}

TEST(Job, ARankThatExitsWithoutLeavingIsNamed) {
  const Outcome outcome = run_hrun(worker(3, {"exit", "1"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("rank 1 (pid"), std::string::npos) << outcome.output;
}

TEST(Job, AnExceptionThatNobodyCatchesIsWhatAllOthersHear) {
  for (const int thrower : {0, 2}) {
    const Outcome outcome = run_hrun(worker(3, {"throw", std::to_string(thrower)}));
    EXPECT_EQ(outcome.exit_code, 128 + SIGABRT) << outcome.output << outcome.errors;
    const std::regex heard("rank " + std::to_string(thrower) +
                           " \\(pid [0-9]+ on .*\\) failed: uncaught std::runtime_error: disk is full; it "
                           "was killed by signal 6 \\(Aborted.*\\)");
    EXPECT_EQ(std::distance(std::sregex_iterator(outcome.output.begin(), outcome.output.end(), heard), {}), 2)
        << outcome.output << outcome.errors;
    EXPECT_NE(outcome.errors.find("terminate called after throwing"), std::string::npos) << outcome.errors;
  }
}

TEST(Job, AnExceptionThatMainCatchesIsToldByWhatTheProgramSaysOfIt) {
  const Outcome outcome = run_hrun(worker(3, {"catch", "1"}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output << outcome.errors;
  const std::regex heard(
      "rank 1 \\(pid [0-9]+ on .*\\) failed: an exception ended it; it exited with code 1; its last words: "
      "disk is full");
  EXPECT_EQ(std::distance(std::sregex_iterator(outcome.output.begin(), outcome.output.end(), heard), {}), 2)
      << outcome.output << outcome.errors;
}

TEST(Job, AFailureThatFollowsFromAnotherRankIsToldWithThatRank) {
  const Outcome outcome = run_hrun(worker(3, {"leave"}));
  EXPECT_NE(outcome.exit_code, 0) << outcome.output << outcome.errors;
  const std::regex heard(
      "\\[2\\] a message from rank 0 with tag 0: rank 0 \\(pid [0-9]+ on .*\\) failed: an exception ended "
      "it; "
      "the first operation that failed there was '[^']*': rank 1 has left the job without submitting it; it "
      "exited with code 1");
  EXPECT_TRUE(std::regex_search(outcome.output, heard)) << outcome.output << outcome.errors;
}

TEST(Job, ADeathIsToldWithItsSignalToAllOthers) {
  for (int victim = 0; victim < 3; ++victim) {
    const Outcome outcome = run_hrun(worker(3, {"die", std::to_string(victim), "30"}));
    const std::regex heard("rank " + std::to_string(victim) +
                           " \\(pid [0-9]+ on .*\\) is gone: it was killed by signal 9 \\(Killed\\)");
    EXPECT_EQ(std::distance(std::sregex_iterator(outcome.output.begin(), outcome.output.end(), heard), {}), 2)
        << outcome.output << outcome.errors;
  }
}

TEST(Job, AnEarlyEndIsToldWithItsCodeAndLastLineToAllOthers) {
  const std::regex heard(
      "rank 1 \\(pid [0-9]+ on .*\\) is gone: it exited with code 0 without shutdown; its last words: "
      "enough");
  const Outcome outcome = run_hrun(worker(3, {"exit", "1"}));
  EXPECT_EQ(std::distance(std::sregex_iterator(outcome.output.begin(), outcome.output.end(), heard), {}), 2)
      << outcome.output << outcome.errors;
}

TEST(Job, RanksWriteDownWhatTheyDoAtASignalAndHrunSaysWhoForgotWhat) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-asked-" + std::to_string(::getpid()));
  Launched launched(
      worker(3, {"forget", "1"}, {"-x", "HORA_DUMP_SIGNAL=USR1", "-x", "HORA_DUMP_DIR=" + folder.string()}));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string line = fmt::format("[{}] up ", rank);
    ASSERT_TRUE(launched.await_output(line));
    ASSERT_TRUE(launched.await_output("\n"));
  }
  for (const int pid : launched.processes_of_ranks()) ::kill(pid, SIGUSR1);
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(launched.await_errors(fmt::format("/rank{}.json\n", rank)));
  const Outcome report = run_hrun({"analyze", folder});
  EXPECT_EQ(report.exit_code, 0) << report.errors;
  EXPECT_TRUE(std::regex_search(
      report.output,
      std::regex("^rank 1 never submitted 'only' \\(allreduce of float32 \\[12\\]\\), which ranks "
                 "0 and 2 submitted [0-9.]+ s before the dump; its last finished operation was "
                 "'t3000000', the 4th\\.\n")))
      << report.output;
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGTERM);
  std::filesystem::remove_all(folder);
}

TEST(Job, AnIdleJobSleeps) {
  const Outcome outcome = run_hrun(worker(2, {"idle"}));
  EXPECT_EQ(outcome.exit_code, 0);
  double cpu = 1;
  int wakeups = 1000;
  const auto at = outcome.output.find("cpu ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  ASSERT_EQ(std::sscanf(outcome.output.c_str() + at, "cpu %lf wakeups %d", &cpu, &wakeups), 2);
  EXPECT_LT(cpu / 3, 0.001 + 0.002) << "3 s, the measuring included";
  EXPECT_LT(wakeups / 3, 5);
}

TEST(Job, RunsAloneWithoutHrun) {
  FILE* pipe = ::popen(HORA_WORKER " reduce", "r");
  char line[64] = "";
  ASSERT_NE(std::fgets(line, sizeof line, pipe), nullptr);
  EXPECT_STREQ(line, "done\n");
  EXPECT_EQ(::pclose(pipe), 0);
}

TEST(Job, RandomOperationsInAnyOrderAreRightAndHoldNothing) {
  for (const char* plane : {"HORA_CPU_OPERATIONS=auto", "HORA_CPU_OPERATIONS=tcp"}) {
    const Outcome outcome = run_hrun({"-np", "4", "-x", plane, HORA_SOAK, "20000"});
    EXPECT_EQ(outcome.exit_code, 0) << plane << outcome.output << outcome.errors;
  }
}

}  // namespace
}  // namespace hora
